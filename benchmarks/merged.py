"""Is it worth it to write what is finished along with the next claim, in one commit?

A worker settles and claims on two connections, side by side. Here one drains the same jobs as
it is, and in two ways that travel together: the completions that wait ride on the next claim,
as one statement, or as two statements in one pipeline and one transaction. "No wait" is the
worker as it is, with a settler that writes an answer as soon as it wakes. What is only measured
here has no way back from an error. Rounds visit every way in turn; a ratio is the median of the
ratios within a round. Absolute figures say more about the machine than about relevo.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar
from unittest.mock import patch

import psycopg
from harness.servers import Server, open_server
from psycopg import AsyncRawCursor
from psycopg.types.array import ListBinaryDumper

from relevo import Context, Relevo, WorkerSettings
from relevo.db.connect import EngineConnection
from relevo.db.drivers import run_async
from relevo.db.migrate import ENGINE, migrate
from relevo.db.operation import Call, Operation, Rows, drive_async
from relevo.db.statements import Statement
from relevo.engine.jobs.settle import settle
from relevo.loops import settler, worker
from relevo.loops.settler import BATCH, Answer, Settler
from relevo.model.settlement import Action
from relevo.store.jobs import claim as claim_rows
from relevo.store.jobs import settle as settle_rows

T = TypeVar("T")

DATABASE: Final = "relevo_bench_merged"
SMALL: Final = BATCH // 10
"""A settler that has so many answers writes them at once; fewer wait a moment, and may ride."""

CLAIM: Final = claim_rows.STATEMENTS["claim_lanes"]
COMPLETE: Final = settle_rows.STATEMENTS["complete_jobs"]


def _merge() -> Statement:
    """Answer the statement that completes jobs and claims others."""
    complete = COMPLETE.sql.replace("%(tenant_ids)s", "%(done_tenants)s")
    found, taken = CLAIM.sql.removeprefix(f"/* {CLAIM.name} */\nWITH ").split(
        "\nUPDATE relevo.jobs AS j\n"
    )
    columns = taken.rsplit("RETURNING", 1)[1].count(",") + 1
    padding = ", ".join(["NULL"] * (columns - 2))
    parts = (
        f"WITH done AS ({complete})",
        found,
        f"claimed AS (\nUPDATE relevo.jobs AS j\n{taken})\nTABLE claimed",
    )
    text = ",\n".join(parts) + f"\nUNION ALL SELECT *, {padding} FROM done"  # noqa: S608 -- our own
    return Statement("complete_and_claim", text)


MERGED: Final = _merge()


class Lender(Settler):
    """A settler that lends plain completions to the next claim."""

    current: ClassVar["Lender"]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._lent: list[Answer] = []
        Lender.current = self

    def lend(self, session: int) -> list[Answer]:
        """Answer the completions that may ride, if there are few."""
        while self._waiting and len(self._waiting) < SMALL:
            first = self._waiting[0]
            if first.worker != session or first.settlement.action is not Action.COMPLETED:
                break
            self._lent.append(self._waiting.popleft())
        return self._lent

    def accept(self, written: int) -> None:
        """Forget what was lent: it is written."""
        assert written == len(self._lent), "a lease was lost"
        self._lent = []
        self._settled()

    @property
    def backlog(self) -> int:
        """How many answers are not written yet."""
        return super().backlog + len(self._lent)

    def job_ids(self) -> Iterable[int]:
        """Answer the jobs whose answers are not written yet."""
        return [*super().job_ids(), *(answer.settlement.job_id for answer in self._lent)]

    async def _write_next(self) -> None:
        # While it waited for more, all of it may have been lent.
        if self._waiting or self._writing:
            await super()._write_next()


class InOneStatement(EngineConnection):
    """A connection on which completions ride on the claim, within its statement."""

    async def run(self, operation: Operation[T], *, in_transaction: bool = False) -> T:
        """Run an operation, its claims together with what waits to be completed."""
        if in_transaction:
            return await super().run(operation, in_transaction=True)
        connection = await self.open()

        async def execute(call: Call) -> Rows:
            if call.statement is CLAIM:
                session = call.params["worker"]
                assert isinstance(session, int)
                if lent := Lender.current.lend(session):
                    done = next(settle(session, {}, [answer.settlement for answer in lent]))
                    return await self._together(connection, done, call)
            return await run_async(connection, _only(call))

        return await drive_async(operation, execute)

    async def _together(self, connection: psycopg.AsyncConnection, done: Call, call: Call) -> Rows:
        tenants = {"done_tenants": done.params["tenant_ids"]}
        both = Call(MERGED, {**done.params, **call.params, **tenants})
        rows = await run_async(connection, _only(both))
        claimed = [row for row in rows if row[2] is not None]
        Lender.current.accept(len(rows) - len(claimed))
        return claimed


class InOnePipeline(InOneStatement):
    """A connection on which both statements travel in one trip and one transaction."""

    async def _together(self, connection: psycopg.AsyncConnection, done: Call, call: Call) -> Rows:
        cursors = []
        async with connection.pipeline():
            for part in (done, call):
                cursor = AsyncRawCursor(connection)
                cursor.adapters.register_dumper(list, ListBinaryDumper)
                values = part.statement.positional(part.params)
                await cursor.execute(part.statement.sendable, values)
                cursors.append(cursor)
        written, claimed = [await cursor.fetchall() for cursor in cursors]
        Lender.current.accept(len(written))
        return claimed


def _only(call: Call) -> Operation[Rows]:
    rows = yield call
    return rows


@dataclass(frozen=True)
class Way:
    """How a worker is changed for a drain."""

    gather: float = settler.GATHER
    connection: type[EngineConnection] = EngineConnection
    settler: type[Settler] = Settler


WAYS: Final = {
    "apart": Way(),
    "apart, no wait": Way(gather=0.0),
    "one statement": Way(connection=InOneStatement, settler=Lender),
    "one pipeline": Way(connection=InOnePipeline, settler=Lender),
}

FIGURES: Final = ("jobs/s", "commits", "WAL B", "server µs", "worker µs", "gap µs", "gap p95")


def drain(
    server: Server, dsn: str, way: Way, jobs: int, options: argparse.Namespace
) -> list[float]:
    """Drain jobs with one worker of this process, and answer its figures in their order."""
    app, gaps, rest = Relevo(), [], random.Random(jobs)  # noqa: S311 -- the same waits for all
    ended_at = time.perf_counter()

    @app.job("bench.noop")
    async def noop(ctx: Context, i: int) -> None:
        nonlocal ended_at
        gaps.append(time.perf_counter() - ended_at)
        if options.work:
            await asyncio.sleep(rest.expovariate(1000 / options.work))
        ended_at = time.perf_counter()

    with psycopg.connect(dsn) as connection:
        noop.enqueue_many(connection, [{"i": i} for i in range(jobs)])
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE relevo.jobs")
    server.settle()
    server.wait_for_users(DATABASE, 0)
    before, computed = server.count(DATABASE), time.process_time()
    with (
        patch.object(settler, "GATHER", way.gather),
        patch.object(worker, "EngineConnection", way.connection),
        patch.object(worker, "Settler", way.settler),
    ):
        begun_at = time.monotonic()
        app.worker(WorkerSettings(dsn, concurrency=options.slots, drain=True)).run()
        spent = time.monotonic() - begun_at
    computed = time.process_time() - computed
    server.wait_for_users(DATABASE, 0)
    after = server.count(DATABASE)
    with psycopg.connect(dsn, autocommit=True) as owner:
        done = owner.execute("SELECT count(*) FROM relevo.jobs WHERE state = 'completed'")
        assert done.fetchone() == (jobs,), "not every job is completed"
        owner.execute("TRUNCATE relevo.jobs CASCADE")
    # The first gap is the start of the worker.
    centiles = [1e6 * gap for gap in statistics.quantiles(gaps[1:], n=20)]
    return [
        jobs / spent,
        (after.commits - before.commits) / jobs,
        (after.wal - before.wal) / jobs,
        1e6 * ((after.cpu or 0) - (before.cpu or 0)) / jobs,
        1e6 * computed / jobs,
        centiles[9],
        centiles[18],
    ]


def measure(server: Server, options: argparse.Namespace) -> None:
    """Drain in turns with so many slots, and print medians and ratios."""
    dsn = server.create(DATABASE)
    migrate(dsn, [ENGINE])
    jobs = options.jobs or min(20_000, round(1000 * options.slots**0.5))
    drain(server, dsn, WAYS["apart"], max(100, jobs // 4), options)
    found: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for number in range(options.rounds):
        for name in list(WAYS) if number % 2 else reversed(WAYS):
            found[name].append(drain(server, dsn, WAYS[name], jobs, options))
    server.drop(DATABASE)
    print(f"\n{options.slots} slots, {jobs} jobs, {options.rounds} rounds")
    for name, rounds in found.items():
        ratios = sorted(
            one[0] / apart[0] for one, apart in zip(rounds, found["apart"], strict=True)
        )
        _print(name, ratios, [statistics.median(column) for column in zip(*rounds, strict=True)])


def _print(name: str, ratios: Sequence[float], medians: Sequence[float]) -> None:
    rate, commits, *others = medians
    figures = " ".join(f"{figure:9.0f}" for figure in others)
    spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
    ratio = f"{statistics.median(ratios):6.2f} ({spread})"
    print(f"{name:16} {rate:9.0f} {commits:9.2f} {figures} {ratio}", flush=True)


def main() -> None:
    """Measure on an embedded server of its own, or on the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", help="a server's superuser; an embedded server without it")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 4, 10, 25, 50, 100, 500])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=0, help="a drain; by the slots without it")
    parser.add_argument("--work", type=float, default=0, help="ms that a job takes on average")
    options = parser.parse_args()
    with open_server(options.dsn) as server:
        print(f"{server.about}; each figure but the first is of one job or one start")
        print(f"{'':16} " + " ".join(f"{figure:>9}" for figure in FIGURES) + "  ratio")
        for slots in options.slots:
            measure(server, argparse.Namespace(**{**vars(options), "slots": slots}))


if __name__ == "__main__":
    main()
