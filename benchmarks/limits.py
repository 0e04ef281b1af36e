"""What do limits cost? A worker drains the same jobs with and without, in turns.

Each round drains once without a limit and once under each kind of limit; printed are the
medians of the rounds and their ratio to the drain without. Absolute figures say more about
the machine than about relevo.
"""

import argparse
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from relevo import Context, Limit, Relevo, WorkerSettings
from relevo.db.drivers import run
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, migrate
from relevo.engine.limits import set_limit
from relevo.model.scope import Scope

SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "4GB"}


CASES: dict[str, dict[str, object]] = {
    "no limit": {},
    "queue, as many as slots": {"queue": 1},
    "queue, twice as many": {"queue": 2},
    "queue, a fifth of the slots": {"queue": 0.2},
    "kind declares a limit": {"limits": [Limit(500)]},
    "lanes, 2 each of 200": {"limits": [Limit(2, per="lane")], "keys": 200},
    "lanes in order, 200": {"ordered": True, "keys": 200},
    "starts, 10000 in a second": {"limits": [Limit(10_000, within=timedelta(seconds=1))]},
}


def drain(dsn: str, case: dict[str, object], jobs: int, concurrency: int) -> float:
    """Enqueue jobs, and answer how many a second one worker drained."""
    app = Relevo()

    @app.job("bench.noop", limits=case.get("limits", ()), ordered=bool(case.get("ordered")))
    async def noop(_ctx: Context, i: int) -> None:
        """Do nothing."""

    keys = case.get("keys")
    with psycopg.connect(dsn) as connection:
        noop.enqueue_many(
            connection,
            [{"i": i} for i in range(jobs)],
            lane_keys=[str(i % keys) for i in range(jobs)] if keys else None,
        )
        if share := case.get("queue"):
            run(connection, set_limit(Scope.QUEUE, "default", round(concurrency * share)))
    worker = app.worker(WorkerSettings(dsn, concurrency=concurrency, drain=True, name="bench"))
    begun = time.monotonic()
    worker.start()
    worker.wait()
    spent = time.monotonic() - begun
    with psycopg.connect(dsn, autocommit=True) as connection:
        left = connection.execute("SELECT count(*) FROM relevo.jobs WHERE live").fetchone()
        if left != (0,):
            message = f"{left[0]} jobs are left"
            raise RuntimeError(message)
        connection.execute("TRUNCATE relevo.jobs CASCADE")
        connection.execute("DELETE FROM relevo.limits")
        connection.execute("TRUNCATE relevo.permits")
    return jobs / spent


def measure(dsn: str, jobs: int, concurrency: int, rounds: int) -> None:
    """Drain in turns and print medians and ratios."""
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    drain(dsn, {}, jobs // 4, concurrency)
    for _ in range(rounds):
        for name, case in CASES.items():
            rates[name].append(drain(dsn, case, jobs, concurrency))
    print(f"{jobs} jobs, {concurrency} slots, {rounds} rounds")
    for name, found in rates.items():
        ratio = statistics.median(
            one / base for one, base in zip(found, rates["no limit"], strict=True)
        )
        print(f"{name:30} {statistics.median(found):8.0f}/s {ratio:6.2f}")


def main() -> None:
    """Measure on an embedded server of its own, or on the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--concurrency", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relevo-bench-") as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=SETTINGS) as server:
            dsn = make_conninfo(server.dsn(), dbname="postgres")
            migrate(dsn, [ENGINE])
            measure(dsn, options.jobs, options.concurrency, options.rounds)


if __name__ == "__main__":
    main()
