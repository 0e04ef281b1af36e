"""relevo as one peer among others: one worker process, a coroutine handler that returns at once.

It plugs into a harness whose `common` module has `Driver`, `ran` and `run`: put it beside the
other drivers there. Not a benchmark by itself.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import ClassVar

import psycopg
from common import Driver, ran, run

from relevo import ENGINE, Context, Relevo, WorkerSettings, migrate

CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "500"))

app = Relevo()


@app.job("noop")
async def noop(ctx: Context, i: int) -> None:
    """Say that it ran."""
    ran(i)


class RelevoDriver(Driver):
    """The verbs of the harness, in relevo's words."""

    name = "relevo"
    remaining_sql = "SELECT count(*) FROM relevo.jobs WHERE live"
    settings: ClassVar = {"concurrency": CONCURRENCY}

    async def install(self) -> None:
        """Create the schema."""
        migrate(self.dsn, [ENGINE])

    async def connect(self) -> None:
        """Open the producer's connection."""
        self.conn = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)

    async def close(self) -> None:
        """Close it."""
        await self.conn.close()

    async def enqueue_one(self, i: int) -> None:
        """One job, committed on return."""
        await noop.enqueue(self.conn, i)

    async def enqueue_many(self, ids: Iterable[int]) -> None:
        """All of them in one statement and one commit."""
        async with self.conn.transaction():
            await noop.enqueue_many(self.conn, [{"i": i} for i in ids])

    async def work(self, ready: Callable[[], None]) -> None:
        """Run a worker for ever."""
        settings = WorkerSettings(self.dsn, concurrency=CONCURRENCY, lease=timedelta(seconds=30))
        worker = app.worker(settings)
        worker.start()
        ready()
        await asyncio.to_thread(worker.wait)


run(RelevoDriver)
