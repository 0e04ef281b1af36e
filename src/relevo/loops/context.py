"""What a handler is given: its job, its log, and transactions that belong to the job."""

import json
import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any
from uuid import UUID

import psycopg

from relevo.db.drivers import run, run_async
from relevo.db.operation import Operation
from relevo.db.pools import HandlerPools
from relevo.db.session import set_tenant
from relevo.engine.jobs.errors import AlreadyCompleted, LeaseLost
from relevo.engine.jobs.settle import complete
from relevo.model import settlement
from relevo.model.job import ClaimedJob
from relevo.model.kind import Kind
from relevo.telemetry.logs import job_logger


@dataclass(slots=True)
class Hold:
    """A job in this worker's hands, and the means to end it inside a transaction.

    Attributes:
        kind: The rules of its kind.
        job: The job as it was claimed.
        worker: The session that holds it.
        pools: Where transactions come from.
        completed: Whether a transaction of the handler has completed the job.
    """

    kind: Kind
    job: ClaimedJob
    worker: int
    pools: HandlerPools
    completed: bool = False

    def completion(self) -> Operation[None]:
        """Complete the job in the transaction at hand, or refuse if it is no longer ours."""
        job = self.job
        held = yield from complete(self.worker, settlement.complete(self.kind, job))
        if not held:
            raise LeaseLost(id=job.id, attempt=job.attempt)


class Context:
    """One start of one job, seen from its handler.

    Attributes:
        tenant_id: Whose job it is.
        job_id: The job's id, the same on every start.
        attempt: The number of this start, from 1; it only grows.
        kind: The job's kind.
        aggregate_id: What the job is about, as it was enqueued.
        actor: Who asked for it, as it was enqueued.
    """

    def __init__(self, hold: Hold) -> None:
        job = hold.job
        self._hold = hold
        self.tenant_id: UUID = job.tenant_id
        self.job_id: int = job.id
        self.attempt: int = job.attempt
        self.kind: str = job.kind
        self.aggregate_id: str | None = job.aggregate_id
        self.actor: str | None = job.actor

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry tenant, job, kind and attempt."""
        return job_logger(self.tenant_id, self.job_id, self.kind, self.attempt)

    @cached_property
    def headers(self) -> Mapping[str, Any]:
        """What travelled with the job, such as ``traceparent``."""
        headers = self._hold.job.headers
        return json.loads(headers) if headers else {}

    @property
    def idempotency_key(self) -> str:
        """The same text on every start of this job, for a service that drops repeats."""
        return f"{self.tenant_id}:{self.kind}:{self.job_id}"

    def transaction(self) -> "JobTransaction":
        """Open the transaction that also completes this job.

        Use it as ``async with`` in a coroutine handler and as ``with`` in a plain one.
        On commit the business writes and the job's completion happen together; on an
        exception neither does. It may be opened once; what the handler returns
        afterwards is not stored.

        Raises:
            LeaseLost: Another worker holds the job by now; everything is rolled back.
            AlreadyCompleted: It was opened before.
        """
        if self._hold.completed:
            raise AlreadyCompleted(id=self.job_id)
        return JobTransaction(self._hold, completes=True)

    def connection(self) -> "JobTransaction":
        """Open a plain transaction that leaves the job alone: reads, or writes that may repeat.

        On commit its writes stay though the job may start again; use `transaction` for
        writes that must happen once.
        """
        return JobTransaction(self._hold, completes=False)


class JobTransaction:
    """A transaction for a handler, to be entered once, with or without await.

    Entering it says whose rows it may see (`relevo.tenant`).
    """

    def __init__(self, hold: Hold, *, completes: bool) -> None:
        self._hold = hold
        self._completes = completes
        self._sync = self._open()
        self._async = self._open_async()

    def __enter__(self) -> psycopg.Connection:
        return self._sync.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._sync.__exit__(kind, error, trace)

    async def __aenter__(self) -> psycopg.AsyncConnection:
        return await self._async.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._async.__aexit__(kind, error, trace)

    @contextmanager
    def _open(self) -> Generator[psycopg.Connection]:
        hold, ending = self._hold, False
        with hold.pools.sync_transaction() as connection:
            run(connection, set_tenant(hold.job.tenant_id))
            yield connection
            if self._completes:
                run(connection, hold.completion())
                ending = True
        hold.completed = hold.completed or ending

    @asynccontextmanager
    async def _open_async(self) -> AsyncGenerator[psycopg.AsyncConnection]:
        hold, ending = self._hold, False
        async with hold.pools.async_transaction() as connection:
            await run_async(connection, set_tenant(hold.job.tenant_id))
            yield connection
            if self._completes:
                await run_async(connection, hold.completion())
                ending = True
        hold.completed = hold.completed or ending
