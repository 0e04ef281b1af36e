"""relevo's side of a measurement: one kind that does nothing, in a queue that nobody else serves.

It works as `relevo_worker`, as handlers do, so its jobs go in under row-level security.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg

from relevo.app import JobKind, Relevo
from relevo.db.drivers import run_async
from relevo.db.dsn import WORKER_ROLE, with_session
from relevo.engine.jobs.measured import count_unfinished
from relevo.loops.context import Context
from relevo.loops.settings import WorkerSettings
from relevo.model.ids import DEFAULT_TENANT

QUEUE: Final = "relevo-bench"
KIND: Final = "relevo.bench"
CONCURRENCY: Final = 500
"""As many at once as the raw loop claims at once."""


class OwnQueue:
    """relevo's producer and its worker.

    Args:
        dsn: Where the jobs are.
        listen_dsn: A direct connection for LISTEN, as workers take it.
    """

    def __init__(self, dsn: str, listen_dsn: str | None = None) -> None:
        self._dsn = dsn
        self._listen_dsn = listen_dsn
        self._connection: psycopg.AsyncConnection | None = None
        _, self._jobs = _declare(_ignore)

    async def open(self) -> None:
        """Open the producer's connection."""
        dsn = with_session(self._dsn, role=WORKER_ROLE, application_name="relevo bench")
        self._connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)

    async def close(self) -> None:
        """Close it."""
        if self._connection is not None:
            await self._connection.close()

    async def enqueue(self, number: int) -> None:
        """Add one job in a transaction of its own."""
        await self._jobs.enqueue(self._producer, number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add a job for each number in one transaction."""
        async with self._producer.transaction():
            await self._jobs.enqueue_many(self._producer, [{"i": number} for number in numbers])

    async def unfinished(self) -> int:
        """Answer how many jobs are not done yet."""
        return await run_async(self._producer, count_unfinished(DEFAULT_TENANT, QUEUE))

    async def work(self, ran: Callable[[int], None], ready: Callable[[], None]) -> None:
        """Run jobs until cancelled.

        Args:
            ran: Called by every job, first thing, with its number; on the handlers' thread.
            ready: Called when the worker has been started.
        """
        app, _ = _declare(ran)
        worker = app.worker(
            WorkerSettings(
                self._dsn,
                listen_dsn=self._listen_dsn,
                queues=(QUEUE,),
                concurrency=CONCURRENCY,
                name="relevo bench",
            )
        )
        worker.start()
        ready()
        try:
            await asyncio.to_thread(worker.wait)
        finally:
            # The thread that waits ends with the worker, and the loop ends with the thread.
            worker.ask_to_stop()

    @property
    def _producer(self) -> psycopg.AsyncConnection:
        if self._connection is None:
            raise RuntimeError("open() comes first")
        return self._connection


def _declare(
    ran: Callable[[int], None],
) -> tuple[Relevo, JobKind[[int], Any]]:
    app = Relevo("multi")

    @app.job(KIND, queue=QUEUE)
    async def noop(ctx: Context, i: int) -> None:  # noqa: ARG001 -- a handler is given its context
        ran(i)

    return app, noop.with_options(tenant_id=DEFAULT_TENANT)


def _ignore(_number: int) -> None:
    """Take no note."""
