"""awa: a runtime in Rust that calls Python's handlers."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from awa import AsyncClient
from peer import Peer, Ran, Ready, serve

WORKERS = 512
BATCH = 512
TRIES = 40


@dataclass
class Noop:
    """The arguments of a job."""

    i: int


class Awa(Peer):
    """One queue on the segmented storage that a new installation gets."""

    package = "awa-pg"
    left = """
        SELECT (SELECT count(*) FROM awa.ready_entries)
             - (SELECT count(*) FROM awa.done_entries)
             - (SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches)
    """
    settings: ClassVar = {"max_workers": WORKERS, "claim_batch_size": BATCH}

    async def install(self) -> None:
        """Make the schema, and have the segmented storage chosen before the first job."""
        async with AsyncClient(self.dsn) as client:
            await client.migrate()
            for _ in range(TRIES):
                async with await client.transaction() as transaction:
                    await transaction.execute("SELECT awa.storage_auto_finalize_if_fresh('awa')")
                    query = "SELECT state FROM awa.storage_transition_state"
                    if (await transaction.fetch_one(query))["state"] == "active":
                        return
                await asyncio.sleep(0.5)
        raise RuntimeError("the segmented storage did not become active")

    async def open(self) -> None:
        """Open the producer's client."""
        self.client = AsyncClient(self.dsn)

    async def close(self) -> None:
        """Close it."""
        await self.client.close()

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        await self.client.insert(Noop(number))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add many by COPY."""
        await self.client.enqueue_many_copy([Noop(number) for number in numbers])

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever."""
        client = AsyncClient(self.dsn, max_connections=20)

        @client.task(Noop)
        async def noop(job: Any) -> None:
            ran(job.args.i)

        queue = {"name": "default", "max_workers": WORKERS, "claim_batch_size": BATCH}
        await client.start([queue])
        ready()
        await asyncio.Event().wait()


serve(Awa)
