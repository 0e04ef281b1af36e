"""Does a job cost the same whatever else the table holds?

A flow of claim and complete, a hundred jobs at a time, is measured on an empty table and
then beside finished rows, rows of the future, kinds nobody serves and a snapshot held
open. What counts is what does not jitter: buffers a job, and the backend's CPU a job.
"""

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, migrate
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.session import open_session
from relevo.engine.jobs.settle import settle
from relevo.model.ids import DEFAULT_TENANT
from relevo.model.ring import Ring
from relevo.model.settlement import Action, Settlement

TICK = os.sysconf("SC_CLK_TCK")
SETTINGS = {
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "shared_preload_libraries": "pg_stat_statements",
    "autovacuum_naptime": "5s",
    "synchronous_commit": "off",
}

FINISHED = """
INSERT INTO relevo.jobs (
    tenant_id, queue, kind, live, state, outcome, finished_at, attempt, payload, available_at,
    created_at
)
SELECT %(tenant)s, 'bench', 'bench.noop', false, 'completed', 'completed',
       now() - n * interval '1 ms', 1,
       jsonb_build_object('i', n), now() - interval '1 day', now() - interval '1 day'
FROM generate_series(1, %(count)s) AS n
"""
WAITING = """
INSERT INTO relevo.jobs (tenant_id, queue, kind, payload, available_at)
SELECT %(tenant)s, 'bench', %(kind)s, jsonb_build_object('i', n), now() + %(due)s::interval
FROM generate_series(1, %(count)s) AS n
"""


@dataclass(frozen=True)
class Scenario:
    """Something else that the table holds while the flow is measured."""

    name: str
    finished: int = 0
    future: int = 0
    unserved: int = 0
    pinned: bool = False


@dataclass(frozen=True)
class Cost:
    """What one job cost the server."""

    buffers: float
    cpu: float


def fill(connection: psycopg.Connection[tuple[object, ...]], scenario: Scenario) -> None:
    """Put the other rows there, in steps that a server of this size takes easily."""
    for begun in range(0, scenario.finished, 500_000):
        count = min(500_000, scenario.finished - begun)
        connection.execute(FINISHED, {"tenant": DEFAULT_TENANT, "count": count})
        connection.commit()
    others = [
        ("bench.noop", "1 day", scenario.future),
        ("bench.unserved", "-2 days", scenario.unserved),
    ]
    for kind, due, count in others:
        if count:
            params = {"tenant": DEFAULT_TENANT, "kind": kind, "due": due, "count": count}
            connection.execute(WAITING, params)
            connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE relevo.jobs")
    connection.autocommit = False


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


def cpu_of(pid: int) -> float:
    """Answer the CPU seconds of one backend so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def flow(dsn: str, jobs: int, batch: int) -> Cost:
    """Claim and complete the ready jobs, and answer what each cost."""
    worker_dsn = with_session(dsn, role=WORKER_ROLE, settings=ENGINE_SETTINGS)
    with psycopg.connect(worker_dsn, autocommit=True) as connection, psycopg.connect(dsn) as owner:
        worker = run(
            connection,
            open_session(
                "bench",
                queues=["bench"],
                kinds=["bench.noop"],
                concurrency=batch,
                version="0",
                lease=3600,
            ),
        )
        owner.execute(
            WAITING,
            {"tenant": DEFAULT_TENANT, "kind": "bench.noop", "due": "-1 second", "count": jobs},
        )
        owner.commit()
        owner.execute("SELECT pg_stat_statements_reset()")
        owner.commit()
        ring = Ring()
        pid = connection.info.backend_pid
        begun, done = cpu_of(pid), 0
        while done < jobs:
            found = run(connection, claim(worker, "bench", ["bench.noop"], batch, ring))
            assert found, f"{done} of {jobs}"
            entries = [Settlement(j.tenant_id, j.id, j.attempt, Action.COMPLETED) for j in found]
            run(connection, settle(worker, {}, entries))
            done += len(found)
        cpu = cpu_of(pid) - begun
        row = owner.execute(
            "SELECT sum(shared_blks_hit + shared_blks_read) FROM pg_stat_statements "
            # The name in front of a statement is not kept; only the claim picks places.
            "WHERE query LIKE '%%picked.place%%' AND query LIKE '%%UPDATE%%'"
        ).fetchone()
        assert row is not None
        return Cost(float(row[0]) / jobs, cpu / jobs * 1e6)


def measure(server: str, scenario: Scenario, jobs: int, batch: int, rounds: int) -> Cost:
    """Measure one scenario in a database of its own."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS flat WITH (FORCE)")
        admin.execute("CREATE DATABASE flat")
    dsn = make_conninfo(server, dbname="flat")
    migrate(dsn, [ENGINE])
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.commit()
        fill(connection, scenario)
    with held_snapshot(dsn, wanted=scenario.pinned):
        costs = [flow(dsn, jobs, batch) for _ in range(rounds)]
    return Cost(
        statistics.median(cost.buffers for cost in costs),
        statistics.median(cost.cpu for cost in costs),
    )


def main() -> None:
    """Print one line a scenario, with its ratios to the empty table of the same run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finished", type=int, default=5_000_000)
    parser.add_argument("--future", type=int, default=1_000_000)
    parser.add_argument("--unserved", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    finished, future, unserved = options.finished, options.future, options.unserved
    scenarios = [
        Scenario("empty"),
        Scenario("finished", finished=finished),
        Scenario("future", future=future),
        Scenario("unserved", unserved=unserved),
        Scenario("pinned", pinned=True),
        Scenario("together", finished=finished, future=future, unserved=unserved, pinned=True),
        Scenario("empty again"),
    ]
    base: Cost | None = None
    with tempfile.TemporaryDirectory(prefix="relevo-bench-") as folder:
        Path(folder).chmod(0o755)
        with Embedded(Path(folder) / "pg", settings=SETTINGS) as embedded:
            for scenario in scenarios:
                if options.only and scenario.name not in ("empty", *options.only.split(",")):
                    continue
                cost = measure(
                    embedded.dsn(), scenario, options.jobs, options.batch, options.rounds
                )
                base = base or cost
                print(
                    f"{scenario.name:12} claim buffers a job {cost.buffers:8.2f}"
                    f" ({cost.buffers / base.buffers:6.2f} x)"
                    f"   server CPU a job {cost.cpu:7.1f} us ({cost.cpu / base.cpu:6.2f} x)",
                    flush=True,
                )


if __name__ == "__main__":
    main()
