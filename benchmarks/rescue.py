"""What does the rescue of one dead worker cost beside many live rows, and a tick without one?

Millions of live rows wait, a worker holds some of them and dies. Counted are the statements
and buffers of the ticks before its death, of the one rescue, and of the ticks after it; beside
the open rescue another session claims and may wait for no lock. Exit code 1 when a statement
at the end does not hold.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import psycopg
from measuring import (
    DATA,
    QUEUE,
    Connection,
    Statements,
    a_database,
    a_server,
    as_worker,
    insert_in_steps,
    number,
    some_tenants,
    vacuum,
)

from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.rescue import (
    RescuedJob,
    end_expired_sessions,
    find_missing_sessions,
    postpone_unserved,
    rescue_lost_jobs,
)
from relevo.engine.jobs.session import open_session, read_clock
from relevo.engine.limits import set_limit
from relevo.model.ring import Ring
from relevo.model.scope import Scope

KIND = "bench.work"
HEAD = 3000
"""The head of a queue is a thousand rows, each perhaps in a page of its own and met twice."""

TENANTS = 100

LATER = "later"
"""A queue of which nothing is due."""

# Half of them due, half in the future, spread over tenants and over the order of their time.
ROWS = """
INSERT INTO relevo.jobs (tenant_id, queue, kind, payload, available_at)
SELECT (%(tenants)s::uuid[])[1 + n %% %(count)s],
       CASE WHEN n / 7 %% 2 = 0 THEN %(queue)s ELSE %(later)s END, %(kind)s,
       jsonb_build_object('i', n),
       now() + CASE WHEN n / 7 %% 2 = 0 THEN -1 ELSE 1 END
           * (60 + n * 7919 %% 86400) * interval '1 s'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
"""


@dataclass(frozen=True)
class Cost:
    """What some of the engine's statements cost the server."""

    calls: int
    buffers: int
    wal: int
    seconds: float


@dataclass
class Bench:
    """One database with its sessions, and what was found."""

    owner: Connection
    rescuer: Connection
    statements: Statements
    failed: int = 0

    def cost(self, what: Callable[[], object]) -> Cost:
        """Answer what the server counts of the engine's statements meanwhile."""
        self.statements.reset()
        what()
        counted = self.statements
        return Cost(counted.calls(), counted.buffers(), counted.wal(), counted.seconds())

    def say(self, what: str, cost: Cost, times: int = 1) -> None:
        """Print one line."""
        print(
            f"{what:44} statements {cost.calls / times:6.1f}   buffers {cost.buffers / times:11.1f}"
            f"   WAL {cost.wal / times / 1024:9.1f} kB"
            f"   server {cost.seconds / times * 1e3:9.2f} ms",
            flush=True,
        )

    def check(self, statement: str, *, holds: bool) -> None:
        """Print a verdict."""
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {statement}", flush=True)

    def ticks(self, count: int) -> None:
        """Look as the rescuer of a worker does a few times in each lease."""
        for _ in range(count):
            self.tick()

    def heads(self, count: int, queue: str) -> None:
        """Look at the head of a queue as the rescuer does in each tick."""
        for _ in range(count):
            run(self.rescuer, postpone_unserved(queue))

    def tick(self) -> None:
        """Look once."""
        run(self.rescuer, read_clock())
        run(self.rescuer, end_expired_sessions())
        with self.rescuer.transaction():
            run(self.rescuer, rescue_lost_jobs())


def a_session(connection: Connection, name: str) -> int:
    """Open a session as a worker does."""
    opened = open_session(
        name, queues=[QUEUE, LATER], kinds=[KIND], concurrency=500, version="0", lease=3600
    )
    return run(connection, opened)


def take(connection: Connection, worker: int, count: int) -> int:
    """Claim so many jobs, or what there is, as a worker does over its first claims."""
    ring, taken = Ring(), 0
    while taken < count:
        found = run(connection, claim(worker, QUEUE, [KIND], min(500, count - taken), ring))
        if not found:
            break
        taken += len(found)
        ring.rest()
    return taken


def die(owner: Connection, *workers: int) -> None:
    """Let the leases of sessions run out, as if their processes had been killed."""
    owner.execute(
        "UPDATE relevo.workers SET expires_at = clock_timestamp() WHERE id = ANY (%s)",
        [list(workers)],
    )


def one_pass(owner: Connection) -> int:
    """Answer the buffers of one look at every live row by its index, so that passes can be told."""
    with owner.transaction():
        for kind in ("seqscan", "bitmapscan"):
            owner.execute(f"SET LOCAL enable_{kind} = off".encode())
        # What the look filters by is in no index, so each row is visited as the rescue does.
        plan = owner.execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(*) FROM relevo.jobs AS j"
            " WHERE j.live AND j.worker = ANY ('{-1}'::bigint[])"
        ).fetchone()
    assert plan is not None
    (explained,) = cast("Any", plan[0])
    top = explained["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def ticks(bench: Bench, count: int, live_pass: int) -> None:
    """Count what ticks cost when nobody has died."""
    quiet = bench.cost(lambda: bench.ticks(count))
    bench.say("a tick when nobody died", quiet, count)
    head, later = (bench.cost(partial(bench.heads, count, queue)) for queue in (QUEUE, LATER))
    bench.say("its look for kinds that nobody serves", head, count)
    bench.say("the same where nothing is due", later, count)
    # The clock with the leases' ends, the end of sessions, and the sessions that have ended.
    bench.check("a tick when nobody died runs 3 statements", holds=quiet.calls == 3 * count)
    bench.check(
        "and touches at most 20 buffers, whatever is live", holds=quiet.buffers <= 20 * count
    )
    bench.check(
        f"the look at a head touches at most {HEAD} buffers, whatever is live",
        holds=max(head.buffers, later.buffers) <= HEAD * count,
    )


def rescue(bench: Bench, dsn: str, held: int, dead: int, live_pass: int) -> None:
    """Rescue what dead workers held, with another session claiming beside it."""
    workers = [a_session(bench.rescuer, f"dead {place}") for place in range(dead)]
    taken = sum(take(bench.rescuer, worker, held) for worker in workers)
    die(bench.owner, *workers)
    run(bench.rescuer, end_expired_sessions())
    with psycopg.connect(as_worker(dsn), autocommit=True) as beside:
        other = a_session(beside, "beside")
        beside.execute("SET lock_timeout = '1ms'")
        with bench.rescuer.transaction():
            back: list[RescuedJob] = []
            cost = bench.cost(lambda: back.extend(run(bench.rescuer, rescue_lost_jobs())))
            meanwhile = take(beside, other, held)
    # What the other one holds is not what is measured next.
    die(bench.owner, other)
    bench.tick()
    passes = cost.buffers / live_pass
    bench.say(f"one rescue of {dead} dead worker(s), {taken} jobs", cost)
    bench.check(f"all {taken} jobs came back", holds=len(back) == taken)
    # Each job is also found by its key, written with its indexes, and noted in the history.
    own = taken * 40
    bench.check(
        f"a rescue is one pass over the live rows ({passes:.2f} of one, {own} buffers for its own"
        f" {taken} jobs allowed)",
        holds=cost.buffers <= 1.1 * live_pass + own,
    )
    bench.check(
        f"beside the open rescue another session claimed {meanwhile} jobs, lock_timeout 1 ms",
        holds=meanwhile == held,
    )


def main() -> None:
    """Print what ticks and a rescue cost, and a verdict a statement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--held", type=int, default=500)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    with a_server(options.data) as server:
        dsn = a_database(server.dsn(), "rescue")
        with psycopg.connect(dsn) as owner:
            tenants = some_tenants(owner, TENANTS)
            insert_in_steps(
                owner,
                ROWS,
                options.rows,
                tenants=tenants,
                count=TENANTS,
                queue=QUEUE,
                later=LATER,
                kind=KIND,
            )
            vacuum(owner)
        with (
            psycopg.connect(dsn, autocommit=True) as owner,
            psycopg.connect(as_worker(dsn), autocommit=True) as rescuer,
        ):
            bench = Bench(owner, rescuer, Statements(owner))
            a_session(rescuer, "living")
            live_pass = one_pass(owner)
            pages = number(owner, "SELECT pg_relation_size('relevo.jobs_claim') / 8192")
            print(
                f"{options.rows} live rows, claim index of {pages:.0f} pages;"
                f" one pass over the live rows touches {live_pass} buffers"
            )
            ticks(bench, 10, live_pass)
            for dead in (1, 3):
                rescue(bench, dsn, options.held, dead, live_pass)
            with rescuer.transaction():
                run(rescuer, set_limit(Scope.QUEUE, QUEUE, 3 * options.held))
            print(f"from here on at most {3 * options.held} jobs of the queue may run")
            rescue(bench, dsn, options.held, 1, live_pass)
            missing = bench.cost(lambda: run(rescuer, find_missing_sessions()))
            bench.say("the look for missing sessions, every 20 leases", missing)
            ticks(bench, 10, live_pass)
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
