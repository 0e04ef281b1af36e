"""An application: the kinds it declares, and how their jobs are enqueued.

Nothing here commits, and no job runs here: that is the worker's.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload
from uuid import UUID

import msgspec

from relevo.api import AsyncConnection, SyncConnection, perform
from relevo.db.operation import Operation
from relevo.engine.jobs.enqueue import Enqueuer, enqueue_jobs
from relevo.loops.context import Context
from relevo.loops.handlers import Closer
from relevo.loops.settings import WorkerSettings
from relevo.loops.worker import Worker
from relevo.model.backoff import DEFAULT_MAX_ATTEMPTS, STANDARD, Backoff
from relevo.model.checks import check_several, refuse
from relevo.model.errors import TenantRequired
from relevo.model.ids import DEFAULT_TENANT
from relevo.model.job import Enqueued, NewJob
from relevo.model.kind import DEFAULT_PRIORITY, DEFAULT_QUEUE, DEFAULT_TIMEOUT, Kind
from relevo.model.limit import Limit
from relevo.model.options import Options, check_key, check_names, check_text
from relevo.model.payload import MAX_PAYLOAD_BYTES, PayloadSchema
from relevo.model.registry import Registry
from relevo.model.retention import DEFAULT_RETENTION, Retention

P = ParamSpec("P")
R = TypeVar("R")


class JobKind(Generic[P, R]):
    """A declared kind: call it to run the handler by hand, enqueue it to have it run later.

    Attributes:
        kind: The rules its jobs live by.
        options: How enqueues through this object differ from them.
    """

    def __init__(self, app: "Relevo", kind: Kind, options: Options) -> None:
        self._app = app
        self.kind = kind
        self.options = options

    def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the handler here and now, as a test does."""
        answer: R = self.kind.handler(context, *args, **kwargs)
        return answer

    def with_options(self, **changes: Any) -> "JobKind[P, R]":
        """Answer the same kind for enqueues with the given options.

        Args:
            **changes: Fields of `Options`; those not named keep their value.

        Raises:
            InvalidOption: There is no such option, or a value makes no sense.
        """
        check_names(changes)
        return JobKind(self._app, self.kind, replace(self.options, **changes))

    @overload
    def enqueue(
        self, connection: SyncConnection, /, *args: P.args, **kwargs: P.kwargs
    ) -> Enqueued: ...
    @overload
    def enqueue(
        self, connection: AsyncConnection, /, *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[Enqueued]: ...
    def enqueue(
        self, connection: Any, /, *args: P.args, **kwargs: P.kwargs
    ) -> Enqueued | Awaitable[Enqueued]:
        """Add one job in the transaction of `connection`.

        On commit the job exists and will run; on roll-back, also to a savepoint, nothing
        of it remains. On a connection that commits by itself a job without a key is its
        own transaction, and one with a key is refused.

        Args:
            connection: Any connection that relevo works on.
            *args: The handler's arguments after the context.
            **kwargs: The same by name.

        Returns:
            The new job's id, or the job that holds the key with ``created=False``.

        Raises:
            PayloadError: The arguments cannot be stored; nothing was sent.
            TenantRequired: The application serves several tenants and none was named.
            NotInTransaction: A keyed enqueue outside a transaction.
        """
        answer: Enqueued | Awaitable[Enqueued] = perform(
            connection, self.enqueuing(*args, **kwargs)
        )
        return answer

    def enqueuing(self, *args: P.args, **kwargs: P.kwargs) -> Operation[Enqueued]:
        """Answer the operation that `enqueue` runs, to be part of a larger one."""
        payload = self.kind.schema.encode(args, kwargs, self._app.max_payload)
        return self._enqueuer.enqueue(payload)

    @overload
    def enqueue_many(
        self,
        connection: SyncConnection,
        payloads: Iterable[Mapping[str, object]],
        *,
        keys: Sequence[str | None] | None = None,
        aggregate_ids: Sequence[str | None] | None = None,
        lane_keys: Sequence[str | None] | None = None,
    ) -> list[Enqueued]: ...
    @overload
    def enqueue_many(
        self,
        connection: AsyncConnection,
        payloads: Iterable[Mapping[str, object]],
        *,
        keys: Sequence[str | None] | None = None,
        aggregate_ids: Sequence[str | None] | None = None,
        lane_keys: Sequence[str | None] | None = None,
    ) -> Awaitable[list[Enqueued]]: ...
    def enqueue_many(
        self,
        connection: Any,
        payloads: Iterable[Mapping[str, object]],
        *,
        keys: Sequence[str | None] | None = None,
        aggregate_ids: Sequence[str | None] | None = None,
        lane_keys: Sequence[str | None] | None = None,
    ) -> list[Enqueued] | Awaitable[list[Enqueued]]:
        """Add many jobs in one statement, in the transaction of `connection`.

        Args:
            connection: Any connection that relevo works on, in a transaction.
            payloads: The handler's arguments by name, one mapping a job.
            keys: A key or None for each.
            aggregate_ids: The aggregate or None of each; default is the option's.
            lane_keys: The lane key or None of each; default is the option's.

        Returns:
            What became of each, in the order of `payloads`.

        Raises:
            PayloadError: The arguments of one cannot be stored; nothing was sent.
            NotInTransaction: The connection commits by itself.
        """
        schema, limit = self.kind.schema, self._app.max_payload
        texts = [schema.encode((), payload, limit) for payload in payloads]
        like = self._like
        if keys is None and like.key is not None:
            keys = [like.key] * len(texts)
        keys = _copy("keys", keys, len(texts))
        aggregate_ids = _copy("aggregate_ids", aggregate_ids, len(texts))
        lane_keys = _copy("lane_keys", lane_keys, len(texts))
        for key in keys or ():
            check_key(key)
        for aggregate_id in aggregate_ids or ():
            check_text("aggregate_id", aggregate_id)
        for lane_key in lane_keys or ():
            check_key(lane_key, "lane_key")
        lanes = None
        if lane_keys is not None:
            like = replace(like, lane_key=None)
            lanes = [self.kind.lane(key) for key in lane_keys]
        operation = enqueue_jobs(
            like,
            texts,
            aggregate_ids=aggregate_ids,
            keys=keys,
            lane_keys=lane_keys,
            lanes=lanes,
        )
        answer: list[Enqueued] | Awaitable[list[Enqueued]] = perform(connection, operation)
        return answer

    @cached_property
    def _enqueuer(self) -> Enqueuer:
        if self.options.key_for is not None and self.options.key is None:
            refuse("key_for", str(self.options.key_for), "there is no key", "pass a key as well")
        return Enqueuer(self._like)

    # Neither the kind nor the options of this object change, so its jobs differ in their payload.
    @cached_property
    def _like(self) -> NewJob:
        options, kind = self.options, self.kind
        headers = msgspec.json.encode(options.headers).decode() if options.headers else None
        return NewJob(
            tenant_id=self._app.tenant_of(options.tenant_id, kind.name),
            queue=options.queue or kind.queue,
            kind=kind.name,
            lane=kind.lane(options.lane_key),
            lane_key=options.lane_key,
            payload="{}",
            priority=kind.priority if options.priority is None else options.priority,
            max_attempts=options.max_attempts or kind.max_attempts,
            available_at=options.available_at,
            delay=options.delay,
            aggregate_id=options.aggregate_id,
            key=options.key,
            key_mode=options.key_mode,
            key_for=options.key_for,
            actor=options.actor,
            headers=headers,
        )


def _copy(
    option: str, values: Sequence[str | None] | None, payloads: int
) -> list[str | None] | None:
    if values is None:
        return None
    check_several(option, values)
    copied = list(values)
    if len(copied) != payloads:
        refuse(option, f"{len(copied)} values", f"there are {payloads} payloads", "pass one each")
    return copied


class Relevo:
    """An application of the engine.

    Args:
        tenants: ``single`` for those who have no tenants: the tenant `default` owns all
            jobs and is never mentioned. ``multi`` refuses an enqueue that names none.
        max_payload: The most bytes of one payload.
    """

    def __init__(
        self,
        tenants: Literal["single", "multi"] = "single",
        max_payload: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self.tenants: Final = tenants
        self.max_payload: Final = max_payload
        self.registry: Final = Registry()
        self._closers: list[Closer] = []

    def job(
        self,
        name: str,
        *,
        queue: str = DEFAULT_QUEUE,
        retry: Backoff = STANDARD,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        timeout: timedelta = DEFAULT_TIMEOUT,
        priority: int = DEFAULT_PRIORITY,
        retention: Retention = DEFAULT_RETENTION,
        limits: Sequence[Limit] = (),
        ordered: bool = False,
    ) -> Callable[[Callable[Concatenate[Context, P], R]], JobKind[P, R]]:
        """Declare the handler of a kind of job.

        Args:
            name: The kind's name on the row, such as ``mail.receipt``.
            queue: Where its jobs wait.
            retry: How long a failed job waits for its next start.
            max_attempts: How many starts count, from 1 to 1000000.
            timeout: How long one start may take.
            priority: From 0 (first) to 3 (last).
            retention: How long finished jobs stay in the table.
            limits: How many of its jobs may run at once, or start within a time, over all
                workers. They hold from the start of the first worker that knows them; an
                operator may change them with ``relevo limits``.
            ordered: The jobs of one lane (`Options.lane_key`, by tenant) run one after the
                other, the one that was due first before the others; one that waits for
                its retry keeps its turn, and the others wait with it.

        Returns:
            A decorator for a function or coroutine function whose first parameter is
            the `Context` and whose others are the payload.

        Raises:
            InvalidKind: The handler's parameters cannot be a payload.
            InvalidOption: A value makes no sense.
            KindExists: The name has a handler already.
        """
        check_several("limits", limits)

        def declare(handler: Callable[Concatenate[Context, P], R]) -> JobKind[P, R]:
            kind = Kind(
                name=name,
                handler=handler,
                schema=PayloadSchema(name, handler),
                queue=queue,
                retry=retry,
                max_attempts=max_attempts,
                timeout=timeout,
                priority=priority,
                retention=retention,
                limits=tuple(limits),
                ordered=ordered,
            )
            self.registry.add(kind)
            return JobKind(self, kind, Options())

        return declare

    def worker(self, settings: WorkerSettings) -> Worker:
        """Answer a worker for every kind of this application."""
        return Worker(self.registry, settings, tuple(self._closers))

    def on_stop(self, closer: Closer) -> Closer:
        """Have a coroutine function run when a worker stops, on the loop of its handlers.

        For what handlers share and keep open, such as a mail channel. It is called once,
        after the last handler; an exception is logged and does not keep the worker.
        """
        self._closers.append(closer)
        return closer

    def tenant_of(self, tenant_id: UUID | None, kind: str) -> UUID:
        """Answer whose job it is.

        Raises:
            TenantRequired: Several tenants exist and none was named.
        """
        if tenant_id is not None:
            return tenant_id
        if self.tenants == "multi":
            raise TenantRequired(kind=kind)
        return DEFAULT_TENANT
