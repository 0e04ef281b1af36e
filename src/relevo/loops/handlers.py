"""Run handlers: coroutines on a loop of their own, plain functions on threads.

This room knows no statement. It is handed claimed jobs, and hands an answer for every
one of them to the settler, whatever the handler does: return, raise, hang, or die with
its loop blocked.
"""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final

from relevo.db.pools import HandlerPools
from relevo.loops.context import Context, Hold
from relevo.loops.settler import Answer
from relevo.loops.threads import ThreadPool
from relevo.model import settlement
from relevo.model.errors import PayloadMismatch
from relevo.model.job import ClaimedJob
from relevo.model.kind import Kind
from relevo.model.registry import Registry
from relevo.model.settlement import Action, Settlement

_LOG: Final = logging.getLogger("relevo.worker")

Closer = Callable[[], Awaitable[None]]

SWEEP: Final = 0.1
"""How often time-outs are looked for, in seconds: one look serves every running job."""

ALONE_AFTER: Final = 2
"""After so many losses a job runs alone, so that it takes no neighbour down with it."""

NO_THREAD_DELAY: Final = timedelta(seconds=5)
"""How long a job waits for which the system started no thread."""


@dataclass(slots=True, eq=False)
class Start:
    """One start of one job in this process.

    Attributes:
        hold: The job and the means to end it.
        kind: The rules of its kind.
        queue: Where it was claimed from.
        deadline: When it times out, by this process's monotonic clock; a start that waits
            behind a handler that blocks the loop has not begun and cannot time out.
        answered: Whether the settler has its answer; a later one is dropped.
        work: The coroutine's own future, to be cancelled.
        cancelled: Whether it was told to end; once, since a second time would end its cleaning up.
    """

    hold: Hold
    kind: Kind
    queue: str
    deadline: float = math.inf
    answered: bool = False
    work: "asyncio.Task[None] | None" = None
    cancelled: bool = False

    def begin(self) -> dict[str, Any]:
        """Start the clock of the time-out, and answer the handler's arguments."""
        self.deadline = time.monotonic() + self.kind.timeout.total_seconds()
        return self.kind.schema.decode(self.hold.job.payload)


class Handlers:
    """The slots of one worker and what runs in them.

    Args:
        registry: The kinds that this worker can run.
        pools: Where handlers' transactions come from.
        slots: How many jobs may run at once.
        answer: Where answers go; called from any thread.
        freed: Called from any thread when a slot is free again.
        closers: What handlers share and leave open, such as a mail channel: run on the
            handlers' loop when it ends.
    """

    def __init__(
        self,
        registry: Registry,
        pools: HandlerPools,
        slots: int,
        answer: Callable[[Answer], None],
        freed: Callable[[], None],
        *,
        closers: Sequence[Closer] = (),
    ) -> None:
        self._closers = closers
        self._registry = registry
        self._pools = pools
        self._slots = slots
        self._answer = answer
        self._freed = freed
        self._running: dict[int, Start] = {}
        self._numbers = 0
        self._alone: deque[Start] = deque()
        self._running_alone: Start | None = None
        self._random = Random()  # noqa: S311 -- jitter, not a secret
        self._threads = ThreadPool(slots)
        self._is_closing = False
        self._loop = asyncio.new_event_loop()
        self._loop_thread = threading.Thread(
            target=self._run_loop, name="relevo-handlers", daemon=True
        )
        self._loop_thread.start()

    @property
    def running(self) -> int:
        """How many slots are taken."""
        return len(self._running) + len(self._alone)

    @property
    def free(self) -> int:
        """How many jobs may be claimed now; none while one has to run alone."""
        if self._alone or self._is_one_alone():
            return 0
        return self._slots - len(self._running)

    def _is_one_alone(self) -> bool:
        # Once it is answered (timed out, and its thread goes on) it holds its slot and no more.
        alone = self._running_alone
        return alone is not None and not alone.answered

    def job_ids(self) -> list[int]:
        """Answer the jobs that this process holds."""
        starts = (*self._running.values(), *self._alone)
        return [start.hold.job.id for start in starts]

    def start(self, worker: int, queue: str, jobs: Sequence[ClaimedJob]) -> None:
        """Start claimed jobs, each in a slot of its own.

        Args:
            worker: The session that holds them.
            queue: Where they were claimed from.
            jobs: At most as many as there are free slots.
        """
        coroutines: list[tuple[int, Start]] = []
        for job in jobs:
            kind = self._registry.find(job.kind)
            if kind is None:
                _LOG.warning("no handler for kind %s, job %s put off", job.kind, job.id)
                back = settlement.release(
                    None, job, f"no handler for kind {job.kind} here", settlement.UNKNOWN_KIND_DELAY
                )
                self._answer(Answer(worker, queue, back))
                continue
            start = Start(Hold(kind, job, worker, self._pools), kind, queue)
            if job.losses >= ALONE_AFTER:
                self._take_alone(start)
            else:
                self._place(start, coroutines)
        if coroutines:
            self._loop.call_soon_threadsafe(self._create_tasks, coroutines)

    def _take_alone(self, start: Start) -> None:
        if self._alone or self._is_one_alone():
            # Held here it would be lost once more, should the one before it end the process.
            self._settle(
                start, settlement.release(start.kind, start.hold.job, "another job runs alone here")
            )
        else:
            self._alone.append(start)

    def start_next_alone(self) -> None:
        """Start one job that has to run alone, if nothing else runs.

        What has timed out and never returns runs no job any more: waiting for it would
        hold this one, and all claims, for ever.
        """
        if self._alone and all(start.answered for start in list(self._running.values())):
            start = self._alone.popleft()
            coroutines: list[tuple[int, Start]] = []
            # Said before it can end; nothing is claimed beside it until it has.
            self._running_alone = start
            self._place(start, coroutines)
            if coroutines:
                self._loop.call_soon_threadsafe(self._create_tasks, coroutines)

    def hand_back(self, reason: str, worker: int | None = None) -> None:
        """Give jobs back without a charge and cancel their handlers.

        Args:
            reason: What a person reads on the row.
            worker: Only the jobs of this session; None means all.
        """
        self.hand_back_waiting(reason, worker)
        for start in list(self._running.values()):
            if worker is None or start.hold.worker == worker:
                self._settle(start, settlement.release(start.kind, start.hold.job, reason))
                self._cancel(start)

    def hand_back_waiting(self, reason: str, worker: int | None = None) -> None:
        """Give back the jobs that wait for their turn to run alone; what runs goes on."""
        for start in list(self._alone):
            if worker is None or start.hold.worker == worker:
                with contextlib.suppress(ValueError):
                    self._alone.remove(start)
                    self._settle(start, settlement.release(start.kind, start.hold.job, reason))

    def close(self, wait: float = 2.0) -> None:
        """End the handlers' loop; a handler that holds it or a thread is left behind."""
        self._threads.close()
        self._is_closing = True
        self._loop.call_soon_threadsafe(self._stop_loop)
        self._loop_thread.join(wait)

    def _place(self, start: Start, coroutines: list[tuple[int, Start]]) -> None:
        self._numbers += 1
        number = self._numbers
        self._running[number] = start
        if start.kind.is_async:
            coroutines.append((number, start))
        else:
            try:
                self._threads.submit(lambda: self._run_function(number, start))
            except RuntimeError as error:
                # The process is at a limit: the job is others' for a while, and the slot is free.
                reason = f"no thread for it here: {error}"
                _LOG.warning("job %s is put off, %s", start.hold.job.id, reason)
                back = settlement.release(start.kind, start.hold.job, reason, NO_THREAD_DELAY)
                self._end(number, start, back)

    def _create_tasks(self, coroutines: list[tuple[int, Start]]) -> None:
        for number, start in coroutines:
            start.work = self._loop.create_task(self._run_coroutine(number, start))

    async def _run_coroutine(self, number: int, start: Start) -> None:
        if start.answered:
            self._free(number)
            return
        try:
            arguments = start.begin()
            answer = await start.kind.handler(Context(start.hold), **arguments)
        except asyncio.CancelledError:
            self._end(number, start, self._decide(start, settlement.settle_cancelled))
        except BaseException as error:  # noqa: BLE001 -- a handler may raise anything, the worker lives
            self._end(number, start, self._decide_error(start, error))
        else:
            self._end(number, start, self._decide_answer(start, answer))

    def _run_function(self, number: int, start: Start) -> None:
        if start.answered:
            self._free(number)
            return
        try:
            arguments = start.begin()
            answer = start.kind.handler(Context(start.hold), **arguments)
        except BaseException as error:  # noqa: BLE001 -- a handler may raise anything, the worker lives
            self._end(number, start, self._decide_error(start, error))
        else:
            self._end(number, start, self._decide_answer(start, answer))

    def _decide_answer(self, start: Start, answer: object) -> Settlement:
        try:
            return settlement.settle_answer(start.kind, start.hold.job, answer, self._random)
        except BaseException as error:  # noqa: BLE001 -- an answer that cannot be read is an error
            return self._decide_error(start, error)

    def _decide_error(self, start: Start, error: BaseException) -> Settlement:
        if isinstance(error, PayloadMismatch):
            return self._decide(start, settlement.refuse_payload, error)
        return self._decide(start, settlement.settle_error, error)

    def _decide(self, start: Start, rule: Callable[..., Settlement], *what: object) -> Settlement:
        kind, job = start.kind, start.hold.job
        try:
            return rule(kind, job, *what, self._random)
        except BaseException as error:  # noqa: BLE001 -- a kind's own backoff may raise anything
            # Unsettled, the job would stay with this worker for ever, and its slot with the job.
            _LOG.exception("the rules of kind %s could not settle job %s", job.kind, job.id)
            return settlement.settle_undecided(kind, job, error)

    def _end(self, number: int, start: Start, decided: Settlement) -> None:
        self._settle(start, decided)
        self._free(number)

    def _free(self, number: int) -> None:
        start = self._running.pop(number)
        if self._running_alone is start:
            self._running_alone = None
        self._freed()

    def _settle(self, start: Start, decided: Settlement) -> None:
        if start.answered:
            return
        start.answered = True
        if start.hold.completed:
            if decided.error or decided.result:
                _LOG.warning(
                    "job %s completed in its own transaction; what came after is not kept: %s",
                    start.hold.job.id,
                    decided.error or "a result",
                )
            return
        if decided.action in (Action.RETRIED, Action.FAILED):
            self._report(start, decided)
        self._answer(Answer(start.hold.worker, start.queue, decided))

    @staticmethod
    def _report(start: Start, decided: Settlement) -> None:
        job = start.hold.job
        _LOG.warning(
            "start %s of job %s (%s) failed: %s",
            job.attempt,
            job.id,
            job.kind,
            decided.error,
            extra={"tenant_id": str(job.tenant_id), "job_id": job.id, "queue": start.queue},
        )

    def _cancel(self, start: Start) -> None:
        # Without a task it sees by itself that it is answered; a task that is cancelled before
        # its first step would run nothing, and never free its slot.
        if start.work is not None:
            self._loop.call_soon_threadsafe(self._cancel_once, start.work, start)

    @staticmethod
    def _cancel_once(work: "asyncio.Task[None]", start: Start) -> None:
        """Cancel a coroutine; on its own loop, since several threads may have a reason to."""
        if not start.cancelled:
            start.cancelled = True
            work.cancel()

    def _sweep(self) -> None:
        now = time.monotonic()
        for start in list(self._running.values()):
            if start.deadline <= now and not start.answered:
                self._settle(start, self._decide(start, settlement.settle_timeout))
                self._cancel(start)

    def sweep_forever(self, stop: threading.Event) -> None:
        """Look for time-outs until told to stop; runs on a thread of its own.

        A handler that blocks its loop must not keep its own time-out from being seen.
        """
        while not stop.wait(SWEEP):
            self._sweep()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_closing:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 -- a task of a handler's own may raise SystemExit
                _LOG.exception("something ended the loop of the handlers, it goes on")
            else:
                if not self._is_closing:
                    _LOG.error("a handler stopped the loop of the handlers, it goes on")
        self._loop.run_until_complete(self._close_shared())
        self._loop.run_until_complete(self._pools.close_async())
        self._pools.close_sync()
        self._loop.close()

    async def _close_shared(self) -> None:
        for closer in self._closers:
            try:
                await closer()
            except Exception:  # noqa: BLE001 -- the others are closed all the same
                _LOG.exception("something that handlers share could not be closed")

    def _stop_loop(self) -> None:
        pending = [start.work for start in self._running.values() if start.work is not None]
        for work in pending:
            work.cancel()
        self._loop.call_later(0.05 if pending else 0, self._loop.stop)
