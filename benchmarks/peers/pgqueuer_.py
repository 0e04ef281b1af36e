"""pgqueuer, on asyncpg: it deletes finished jobs and keeps a log of them."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import asyncpg
from peer import Peer, Ran, Ready, serve
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries

BATCH = 1000


class Pgqueuer(Peer):
    """Jobs of one entry point, claimed by the largest batches that still gain."""

    package = "pgqueuer"
    left = "SELECT count(*) FROM pgqueuer"
    settings: ClassVar = {"batch_size": BATCH, "pool": 10}

    async def install(self) -> None:
        """Make the schema."""
        connection = await asyncpg.connect(self.dsn)
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        """Open the producer's connection."""
        self.connection = await asyncpg.connect(self.dsn)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        """Close it."""
        await self.connection.close()

    async def enqueue(self, number: int) -> None:
        """Add one job."""
        await self.queries.enqueue("noop", json.dumps({"i": number}).encode())

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add many in one statement."""
        payloads = [json.dumps({"i": number}).encode() for number in numbers]
        count = len(payloads)
        await self.queries.enqueue(["noop"] * count, payloads, [0] * count)

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever."""
        pool = await asyncpg.create_pool(self.dsn, min_size=2, max_size=10)
        worker = PgQueuer(AsyncpgPoolDriver(pool))

        @worker.entrypoint("noop")
        async def noop(job: Any) -> None:
            ran(json.loads(job.payload)["i"])

        ready()
        await worker.run(batch_size=BATCH, dequeue_timeout=timedelta(seconds=30))


serve(Pgqueuer)
