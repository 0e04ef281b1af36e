"""chancy, on psycopg: handlers are coroutines of the worker's own loop."""

import asyncio
import logging
from collections.abc import Sequence
from typing import ClassVar

from chancy import Chancy, Queue, Worker, job
from peer import Peer, Ran, Ready, serve

CONCURRENCY = 1000

_ran: list[Ran] = []


@job(queue="default")
async def noop(*, i: int) -> None:
    """Say that it ran."""
    _ran[0](i)


class ChancyPeer(Peer):
    """One queue with the executor for coroutines, asked again at once while it has jobs."""

    package = "chancy"
    left = "SELECT count(*) FROM chancy_jobs WHERE state <> 'succeeded'"
    settings: ClassVar = {"concurrency": CONCURRENCY, "executor": "async", "eager_polling": True}

    async def install(self) -> None:
        """Make the schema and declare the queue."""
        queue = Queue(
            "default",
            concurrency=CONCURRENCY,
            executor=Chancy.Executor.Async,
            polling_interval=1,
            eager_polling=True,
        )
        async with Chancy(self.dsn) as chancy:
            await chancy.migrate()
            await chancy.declare(queue)

    async def open(self) -> None:
        """Open the producer's pool."""
        self.chancy = await Chancy(self.dsn).__aenter__()

    async def close(self) -> None:
        """Close it."""
        await self.chancy.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        await self.chancy.push(noop.job.with_kwargs(i=number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add many; they are sent in batches of the library's choice."""
        async for _ in self.chancy.push_many([noop.job.with_kwargs(i=each) for each in numbers]):
            await asyncio.sleep(0)

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever."""
        logging.getLogger("chancy").setLevel(logging.ERROR)
        _ran.append(ran)
        async with Chancy(self.dsn) as chancy, Worker(chancy) as worker:
            ready()
            await worker.wait_for_shutdown()


serve(ChancyPeer)
