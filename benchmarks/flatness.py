"""Does a job cost the same whatever else the table holds?

A flow of claim and complete, a hundred jobs at a time, is measured beside finished rows, rows
of the future, kinds nobody serves, a snapshot held open, and jobs parked behind busy keys; each
alone, then together. Every round runs the same flow on an empty table of the same server at
once before it, so that the ratios do not see what else the machine does.
"""

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psycopg
from measuring import (
    DATA,
    QUEUE,
    SETTINGS,
    Connection,
    Statements,
    a_database,
    a_server,
    as_worker,
    cpu_of,
    insert_in_steps,
    vacuum,
)
from psycopg.conninfo import make_conninfo

from relevo import Context, Relevo
from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.session import open_session
from relevo.engine.jobs.settle import settle
from relevo.engine.limits import declare_limits
from relevo.model.ids import DEFAULT_TENANT
from relevo.model.ring import Ring
from relevo.model.settlement import Action, Settlement

NOOP: Final = "bench.noop"
PARKED: Final = "bench.ordered"
MOST: Final = 1.25
DISK_A_ROW: Final = 800
"""Bytes of disk that a row takes at most: half-full pages, six indexes, its WAL."""

DISK_SHARE: Final = 0.6

app = Relevo()


@app.job(PARKED, queue=QUEUE, ordered=True)
async def ordered(ctx: Context) -> None:
    """Wait behind the one that runs."""


# What a week leaves behind: the pruner's index holds them as well.
FINISHED: Final = """
INSERT INTO relevo.jobs (
    tenant_id, queue, kind, live, state, outcome, attempt, payload,
    available_at, created_at, started_at, finished_at, prune_at
)
SELECT %(tenant)s, %(queue)s, %(kind)s, false, 'completed', 'completed', 1,
       jsonb_build_object('i', n), t.at, t.at, t.at, t.at, t.at + interval '7 days'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
CROSS JOIN LATERAL (SELECT now() - interval '7 days' + n * interval '20 ms' AS at) AS t
"""
WAITING: Final = """
INSERT INTO relevo.jobs (tenant_id, queue, kind, payload, available_at)
SELECT %(tenant)s, %(queue)s, %(kind)s, jsonb_build_object('i', n), now() + %(due)s::interval
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
"""
BEHIND_KEYS: Final = """
INSERT INTO relevo.jobs (tenant_id, queue, kind, payload, available_at, lane, lane_key)
SELECT %(tenant)s, %(queue)s, %(kind)s, jsonb_build_object('i', n), now() - interval '1 day',
       relevo.lane_of(%(kind)s, k.key), k.key
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
CROSS JOIN LATERAL (SELECT 'key ' || n %% %(keys)s AS key) AS k
"""

# Leaf pages of the claim's index, and those of them on which no entry leads to a live row.
PAGES: Final = """
WITH alive AS MATERIALIZED (SELECT j.ctid AS place FROM relevo.jobs AS j WHERE j.live),
leaf AS (
    SELECT n AS page, bool_or(a.place IS NOT NULL) AS is_live
    FROM generate_series(1, pg_relation_size('relevo.jobs_claim') / 8192 - 1) AS n
    CROSS JOIN LATERAL bt_page_stats('relevo.jobs_claim', n) AS s
    CROSS JOIN LATERAL bt_page_items('relevo.jobs_claim', n) AS i
    CROSS JOIN LATERAL unnest(coalesce(i.tids, ARRAY[i.htid])) AS t (place)
    LEFT JOIN alive AS a ON a.place = t.place
    WHERE s.type = 'l'
    GROUP BY n
)
SELECT count(*), count(*) FILTER (WHERE NOT is_live)
FROM leaf
"""


@dataclass(frozen=True)
class Scenario:
    """Something else that the table holds while the flow is measured.

    Attributes:
        name: Its name.
        finished: Rows that have ended.
        future: Rows that are not due.
        unserved: Due rows of a kind that the worker does not serve, older than the flow's.
        parked: Due rows of a kind whose lanes are all busy.
        is_pinned: Whether a snapshot is held open from before the flow on.
        is_ordered: Whether the worker also serves a kind that runs in order.
    """

    name: str
    finished: int = 0
    future: int = 0
    unserved: int = 0
    parked: int = 0
    is_pinned: bool = False
    is_ordered: bool = False


@dataclass(frozen=True)
class Cost:
    """What one job cost the server: buffers of its claim, microseconds of the backend."""

    buffers: float
    cpu: float


def fill(dsn: str, scenario: Scenario, keys: int) -> None:
    """Put the other rows there; the tenant is known to exist, so that nobody looks it up."""
    with psycopg.connect(dsn) as owner:
        owner.execute("SET session_replication_role = 'replica'")
        common = {"tenant": DEFAULT_TENANT, "queue": QUEUE}
        # A row grows as it starts and ends: it leaves no room on its page for one more that waits.
        owner.execute("ALTER TABLE relevo.jobs SET (fillfactor = 60)")
        insert_in_steps(owner, FINISHED, scenario.finished, kind=NOOP, **common)
        owner.execute("ALTER TABLE relevo.jobs SET (fillfactor = 50)")
        insert_in_steps(owner, WAITING, scenario.future, kind=NOOP, due="1 day", **common)
        insert_in_steps(
            owner, WAITING, scenario.unserved, kind="bench.unserved", due="-2 days", **common
        )
        insert_in_steps(owner, BEHIND_KEYS, scenario.parked, kind=PARKED, keys=keys, **common)
        if scenario.is_ordered:
            order(dsn, declared=True)
        vacuum(owner)
    if scenario.parked:
        make_busy(dsn, keys)


def order(dsn: str, *, declared: bool) -> None:
    """Have the kind's lanes run one after the other, or not."""
    with psycopg.connect(dsn) as owner:
        if declared:
            run(owner, declare_limits(app.registry.kinds()))
        else:
            owner.execute("DELETE FROM relevo.permits")
            owner.execute("DELETE FROM relevo.limits")


def make_busy(dsn: str, keys: int) -> None:
    """Have another session run the first job of each lane for as long as all this takes."""
    with psycopg.connect(as_worker(dsn), autocommit=True) as connection:
        holder, ring, held = a_session(connection, [PARKED], keys), Ring(), 0
        while held < keys:
            found = run(connection, claim(holder, QUEUE, [PARKED], 500, ring))
            held += len(found)
            ring.rest()


def a_session(connection: Connection, kinds: Sequence[str], concurrency: int) -> int:
    """Open a session as a worker does."""
    return run(
        connection,
        open_session(
            "bench", queues=[QUEUE], kinds=kinds, concurrency=concurrency, version="0", lease=86400
        ),
    )


@contextmanager
def held_snapshot(dsn: str, *, wanted: bool) -> Iterator[None]:
    """Hold a snapshot open, so that vacuum and pruning may remove nothing that follows."""
    if not wanted:
        yield
        return
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM relevo.workers")
        yield
        connection.rollback()


def flow(dsn: str, jobs: int, batch: int, kinds: Sequence[str]) -> Cost:
    """Enqueue, claim and complete so many jobs, and answer what each cost."""
    with (
        psycopg.connect(as_worker(dsn), autocommit=True) as connection,
        psycopg.connect(dsn, autocommit=True) as owner,
    ):
        worker = a_session(connection, kinds, batch)
        owner.execute(
            WAITING.encode(),
            {
                "tenant": DEFAULT_TENANT,
                "queue": QUEUE,
                "kind": NOOP,
                "due": "-1 second",
                "first": 1,
                "last": jobs,
            },
        )
        statements, ring, done = Statements(owner), Ring(), 0
        statements.reset()
        begun = cpu_of(connection.info.backend_pid)
        while done < jobs:
            found = run(connection, claim(worker, QUEUE, kinds, batch, ring))
            if found:
                entries = [
                    Settlement(j.tenant_id, j.id, j.attempt, Action.COMPLETED) for j in found
                ]
                run(connection, settle(worker, {}, entries))
                done += len(found)
            else:
                # As a worker does: what it remembers is dry, the rest waits for the next sweep.
                time.sleep(max(0.001, ring.sweep_in(time.monotonic())))
        cpu = cpu_of(connection.info.backend_pid) - begun
        touched = statements.buffers(but="finished_at = clock_timestamp()")
        return Cost(touched / jobs, cpu / jobs * 1e6)


@dataclass
class Bench:
    """A server with an empty database beside the one that a scenario fills."""

    server: str
    jobs: int
    batch: int
    rounds: int
    keys: int
    base: str = ""
    failed: int = 0

    def measure(self, scenario: Scenario, *, goes_on: bool = False) -> None:
        """Measure one scenario and print its line.

        Args:
            scenario: What else the table holds.
            goes_on: Whether the finished rows of the scenario before are still there.
        """
        self.base = self.base or a_database(self.server, "flat_empty")
        dsn = make_conninfo(self.server, dbname="flat")
        if not goes_on:
            dsn = a_database(self.server, "flat")
        fill(dsn, replace(scenario, finished=0) if goes_on else scenario, self.keys)
        kinds = [NOOP, PARKED] if scenario.is_ordered else [NOOP]
        with held_snapshot(dsn, wanted=scenario.is_pinned):
            pairs = [self._pair(dsn, scenario, kinds) for _ in range(self.rounds)]
            leaves, dead = self._pages(dsn)
        free, same, beside = (
            Cost(
                statistics.median(cost.buffers for cost in costs),
                statistics.median(cost.cpu for cost in costs),
            )
            for costs in zip(*pairs, strict=True)
        )
        buffers = beside.buffers / same.buffers
        cpu = statistics.median(after.cpu / before.cpu for _, before, after in pairs)
        holds = buffers <= MOST and cpu <= MOST
        self.failed += not holds
        print(
            f"{'ok  ' if holds else 'FAIL'} {scenario.name:10}"
            f" buffers a job {beside.buffers:7.2f} ({buffers:5.2f} x)"
            f"  CPU a job {beside.cpu:6.1f} us ({cpu:5.2f} x)"
            f"  claim index {leaves:6} leaves, {dead:6} dead",
            flush=True,
        )
        if scenario.is_ordered:
            print(
                f"     on the empty table: {same.buffers:.2f} buffers, {same.cpu:.1f} us with a"
                f" kind in order, {free.buffers:.2f} and {free.cpu:.1f} without",
                flush=True,
            )

    def _pair(self, dsn: str, scenario: Scenario, kinds: Sequence[str]) -> tuple[Cost, Cost, Cost]:
        free = self._on_the_empty_table([NOOP])
        same = free
        if scenario.is_ordered:
            order(self.base, declared=True)
            same = self._on_the_empty_table(kinds)
            order(self.base, declared=False)
        return free, same, flow(dsn, self.jobs, self.batch, kinds)

    def _on_the_empty_table(self, kinds: Sequence[str]) -> Cost:
        with psycopg.connect(self.base, autocommit=True) as owner:
            owner.execute("TRUNCATE relevo.jobs, relevo.attempts")
        return flow(self.base, self.jobs, self.batch, kinds)

    @staticmethod
    def _pages(dsn: str) -> tuple[int, int]:
        with psycopg.connect(dsn) as owner:
            row = owner.execute(PAGES.encode()).fetchone()
        assert row is not None
        return int(str(row[0])), int(str(row[1]))


def within_the_disk(data: Path, finished: int) -> int:
    """Answer how many finished rows the disk has room for, and say so where it is fewer."""
    free = shutil.disk_usage(data).free
    most = int(free * DISK_SHARE / DISK_A_ROW)
    if finished > most:
        print(f"{data} has {free / 2**30:.0f} GiB free: {most} finished rows, not {finished}")
    return min(finished, most)


def main() -> None:
    """Print one line a scenario; exit code 1 when one is not flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finished", type=int, default=5_000_000)
    parser.add_argument("--future", type=int, default=1_000_000)
    parser.add_argument("--unserved", type=int, default=100_000)
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1000, help="busy keys that they wait behind")
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of scenarios, with commas")
    parser.add_argument("--data", type=Path, default=DATA, help="where the server's data go")
    options = parser.parse_args()
    finished = within_the_disk(options.data, options.finished)
    others = {"future": options.future, "unserved": options.unserved, "parked": options.parked}
    scenarios = [
        Scenario("nothing"),
        Scenario("future", future=options.future),
        Scenario("unserved", unserved=options.unserved),
        Scenario("pinned", is_pinned=True),
        Scenario("in order", is_ordered=True),
        Scenario("parked", parked=options.parked, is_ordered=True),
        Scenario("finished", finished=finished),
        Scenario("together", finished=finished, is_pinned=True, is_ordered=True, **others),
    ]
    wanted = [each for each in scenarios if each.name in (options.only or each.name).split(",")]
    print(
        f"{options.jobs} jobs by {options.batch}, {options.rounds} rounds; {finished} finished,"
        f" {options.future} future, {options.unserved} unserved,"
        f" {options.parked} parked behind {options.keys} keys"
    )
    with a_server(options.data, SETTINGS) as server:
        bench = Bench(server.dsn(), options.jobs, options.batch, options.rounds, options.keys)
        before = ""
        for scenario in wanted:
            goes_on = scenario.name == "together" and before == "finished"
            bench.measure(scenario, goes_on=goes_on)
            before = scenario.name
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
