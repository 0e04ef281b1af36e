"""oban for Python, on psycopg: it keeps finished jobs."""

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from oban import Oban, worker
from oban.schema import install
from peer import Peer, Ran, Ready, serve

LIMIT = 500

_ran: list[Ran] = []


@worker(queue="default")
class Noop:
    """Says that it ran."""

    async def process(self, job: Any) -> None:
        """Run one job."""
        _ran[0](job.args["i"])


class ObanPeer(Peer):
    """One queue with a high limit."""

    package = "oban"
    left = "SELECT count(*) FROM oban_jobs WHERE state <> 'completed'"
    settings: ClassVar = {"limit": LIMIT}

    async def install(self) -> None:
        """Make the schema."""
        pool = await Oban.create_pool(self.dsn)
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        """Open the producer's pool; it serves no queue."""
        self.pool = await Oban.create_pool(self.dsn)
        self.oban = Oban(pool=self.pool)
        await self.oban.start()

    async def close(self) -> None:
        """Close it."""
        await self.oban.stop()
        await self.pool.close()

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        await self.oban.enqueue(Noop.new({"i": number}))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add many in one call."""
        await self.oban.enqueue_many(*(Noop.new({"i": number}) for number in numbers))

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever."""
        _ran.append(ran)
        pool = await Oban.create_pool(self.dsn)
        async with Oban(pool=pool, queues={"default": LIMIT}):
            ready()
            await asyncio.Event().wait()


serve(ObanPeer)
