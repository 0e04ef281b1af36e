"""procrastinate, on psycopg: it keeps finished jobs and their events."""

import logging
from collections.abc import Sequence
from typing import ClassVar

from peer import Peer, Ran, Ready, serve
from procrastinate import App, PsycopgConnector

CONCURRENCY = 20
POOL = 10


class Procrastinate(Peer):
    """One task; more concurrency than this made it slower where it was tried."""

    package = "procrastinate"
    left = "SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"
    settings: ClassVar = {"concurrency": CONCURRENCY, "pool": POOL}

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        connector = PsycopgConnector(conninfo=dsn, min_size=1, max_size=POOL)
        self.app = App(connector=connector)
        self.ran: Ran = lambda _number: None

        @self.app.task(name="noop")
        async def noop(i: int) -> None:
            self.ran(i)

        self.noop = noop

    async def install(self) -> None:
        """Make the schema."""
        async with self.app.open_async():
            await self.app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        """Open the producer's pool."""
        await self.app.open_async()

    async def close(self) -> None:
        """Close it."""
        await self.app.close_async()

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        await self.noop.defer_async(i=number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add many in one call."""
        await self.noop.batch_defer_async(*({"i": number} for number in numbers))

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever."""
        self.ran = ran
        async with self.app.open_async():
            ready()
            await self.app.run_worker_async(concurrency=CONCURRENCY)


serve(Procrastinate)
