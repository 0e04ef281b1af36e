"""Claim due jobs for free slots, and wait well when nothing is due.

One claimer serves a process. Polling is the guarantee; a notification only ends the
wait early.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from relevo.db.connect import EngineConnection
from relevo.engine.jobs import session
from relevo.engine.jobs.claim import claim, find_due_queues
from relevo.engine.limits import declare_limits, look_at_limits
from relevo.loops.handlers import Handlers
from relevo.loops.heartbeat import Heartbeat
from relevo.loops.settings import WorkerSettings
from relevo.loops.settler import Answer, Settler
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse
from relevo.model import settlement
from relevo.model.job import ClaimedJob
from relevo.model.kind import Kind
from relevo.model.pace import LOOK_IN_FLOW, SWEEP_SHARE, Flow
from relevo.model.ring import Ring

_LOG: Final = logging.getLogger("relevo.worker")

BATCH: Final = 500
GATHER: Final = 0.01
"""How long a claim may wait for more slots, so that many short jobs are claimed together."""

CLAIM_TIMEOUT: Final = 10.0
"""The server ends a claim after so many seconds; a lost one cannot commit later than that."""

LEAST_REST: Final = 0.001

BACKLOG: Final = 4
"""How many times its slots a worker may have in unwritten answers before it claims more."""


class Claimer:
    """Moves due jobs from the table into free slots."""

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        connection: EngineConnection,
        heartbeat: Heartbeat,
        handlers: Handlers,
        settler: Settler,
        changed: Signal,
        woken: Signal,
        kinds: Sequence[Kind],
        on_idle: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._heartbeat = heartbeat
        self._handlers = handlers
        self._settler = settler
        self._changed = changed
        self._woken = woken
        self._declared = kinds
        self._kinds = [kind.name for kind in kinds]
        self._kept = [kind.name for kind in kinds if kind.retention.failed is None]
        self._on_idle = on_idle
        self._rings = {queue: Ring() for queue in settings.queues}
        self._flow = Flow()
        self._turn = 0
        self._idle_for: int | None = None
        self._is_listening = settings.listen_dsn != ""
        self._doubtful: tuple[int, float] | None = None
        self._probe_cost = 0.0
        self.stopping = False

    async def run(self, pulse: Pulse) -> None:
        """Claim until the worker stops."""
        # Before the first claim, so that nothing of these kinds starts beyond what they declare.
        await self._connection.run(declare_limits(self._declared), in_transaction=True)
        due: Sequence[str] = self._settings.queues
        while not self.stopping:
            pulse.beat()
            worker = self._heartbeat.worker
            if worker is None or not self._heartbeat.is_proved():
                await self._changed.wait(timeout=0.1)
                continue
            await self._resolve_doubt(worker)
            if not self._settler.backlog:
                # What is written cannot be lost, should that job end the process.
                self._handlers.start_next_alone()
            if not await self._has_slots():
                continue
            # What ran when the claim was made may have held what the claim would have taken.
            was_busy = self._is_busy()
            begun_at = time.monotonic()
            claimed = await self._claim_all(worker, due)
            due = self._settings.queues
            self._look_at_flow(claimed)
            if claimed:
                await self._stay_busy(worker)
                if not (self.is_limited and self._handlers.free):
                    continue
            if await self._is_at_rest(worker, begun_at) and not claimed:
                due = await self._idle(pulse, was_busy=was_busy)
        # Now or never: a claim that commits later than this is rescued, as lost.
        await self._resolve_doubt(self._heartbeat.worker, at_once=True)

    async def _is_at_rest(self, worker: int, begun_at: float) -> bool:
        """Say whether everything has been looked at; where not, wait for the next look."""
        if self._flow.is_steady:
            await asyncio.sleep(LOOK_IN_FLOW)
        elif self._idle_for != worker:
            await self._want_to_be_told(worker)
        elif rest := self._sweep_in(begun_at):
            await self._rest(rest)
        else:
            return True
        return False

    async def _rest(self, seconds: float) -> None:
        """Wait until a sweep may say whether lanes that are not remembered have something."""
        # Under limits a slot that is free is no permit: that comes with an answer written.
        signal = self._woken if self.is_limited else self._changed
        if await signal.wait(timeout=seconds):
            self._expect_news()

    async def _stay_busy(self, worker: int) -> None:
        """Be told nothing while there is more work than slots, or it flows: claims look anyway."""
        wants_none = self._handlers.free < 1 or self._flow.is_steady
        if self._idle_for == worker and wants_none:
            if self._is_listening:
                await self._connection.run(session.mark_idle(worker, idle=False))
            self._idle_for = None

    async def _want_to_be_told(self, worker: int) -> None:
        # Said before the last look, so that a job enqueued in between is seen or told.
        if self._is_listening:
            await self._connection.run(session.mark_idle(worker, idle=True))
        self._idle_for = worker

    async def _has_slots(self) -> bool:
        free = self._handlers.free
        if self._settler.backlog > BACKLOG * self._settings.concurrency:
            free = 0
        if free >= max(1, self._settings.concurrency // 2):
            return True
        # Wait a moment for more slots; one that stays alone is used all the same.
        await self._changed.wait(timeout=GATHER if free else 0.5)
        return free > 0 and self._handlers.free > 0

    @property
    def is_limited(self) -> bool:
        """Whether something limits what may start, as far as this worker knows."""
        return any(ring.is_limited for ring in self._rings.values())

    async def _claim_all(self, worker: int, queues: Sequence[str]) -> int:
        self._turn = (self._turn + 1) % len(queues)
        claimed, wanted = 0, min(self._handlers.free, BATCH)
        for queue in (*queues[self._turn :], *queues[: self._turn]):
            free = min(self._handlers.free, BATCH)
            if free < 1 or self.stopping:
                break
            claimed += await self._claim(worker, queue, free)
        if 0 < claimed < wanted:
            # Nothing more is known to be due, so what was found begins before the next look.
            await asyncio.sleep(LOOK_IN_FLOW if self._flow.is_steady else LEAST_REST)
        return claimed

    async def _claim(self, worker: int, queue: str, free: int) -> int:
        operation = claim(worker, queue, self._kinds, free, self._rings[queue])
        try:
            jobs = await self._connection.run(operation)
            self._hand_over(worker, queue, jobs)
        except BaseException:
            # It may have been committed, its answer lost on the way; see _resolve_doubt.
            self._doubtful = (worker, time.monotonic() + CLAIM_TIMEOUT)
            raise
        return len(jobs)

    def _hand_over(self, worker: int, queue: str, jobs: Sequence[ClaimedJob]) -> None:
        if jobs and self._heartbeat.worker != worker:
            # The process slept: the session has ended, and these jobs are others' by now.
            _LOG.warning("session %s ended during a claim, its jobs are not started", worker)
        elif self._heartbeat.is_proved():
            self._handlers.start(worker, queue, jobs)
        else:
            for job in jobs:
                back = settlement.release(None, job, "lease could not be proved")
                self._settler.put(Answer(worker, queue, back))

    async def _resolve_doubt(self, worker: int | None, *, at_once: bool = False) -> None:
        if self._doubtful is None or not (at_once or time.monotonic() >= self._doubtful[1]):
            return
        if worker is not None and self._doubtful[0] == worker:
            # No claim is under way here, so what is held and not known was lost on the way.
            known = [*self._handlers.job_ids(), *self._settler.job_ids()]
            await self._connection.run(session.hand_back_unknown(worker, known, self._kept))
        self._doubtful = None

    def _sweep_in(self, moment: float) -> float:
        """Answer how long to wait for a sweep of each queue that begins after the moment."""
        now = time.monotonic()
        rings = (ring for ring in self._rings.values() if not ring.has_swept_since(moment))
        return max((max(ring.sweep_in(now), LEAST_REST) for ring in rings), default=0.0)

    def _is_busy(self) -> bool:
        return bool(self._handlers.running or self._settler.backlog or self._doubtful)

    async def _idle(self, pulse: Pulse, *, was_busy: bool) -> Sequence[str]:
        """Wait until something may be due; answer in which queues."""
        queues = self._settings.queues
        while not self.stopping:
            pulse.beat()
            start_in = await self._next_start_in()
            # What a limit of starts lets through later is still to be done.
            if not was_busy and (start_in == math.inf or not await self._find_due()):
                self._on_idle()
            rest = max(self._settings.poll.total_seconds(), self._probe_cost * SWEEP_SHARE)
            if await self._woken.wait(timeout=min(rest, start_in)):
                self._expect_news()
                return queues
            if len(queues) == 1 or self.is_limited:
                return queues
            # One look for all queues; what it finds is claimed from those alone.
            was_busy = self._is_busy()
            if due := await self._find_due():
                return due
        return queues

    def _look_at_flow(self, found: int) -> None:
        if self.is_limited:
            # It is told of every answer as well, and looks at once for the permit that is free.
            self._flow = Flow()
        else:
            self._flow.end_look(time.monotonic(), found, self._woken.sets)

    def _expect_news(self) -> None:
        for ring in self._rings.values():
            ring.expect_news()

    async def _find_due(self) -> Sequence[str]:
        begun_at = time.monotonic()
        due = await self._connection.run(find_due_queues(self._settings.queues, self._kinds))
        self._probe_cost = time.monotonic() - begun_at
        return due

    async def _next_start_in(self) -> float:
        """Answer in how many seconds a limit of starts lets the next one come."""
        soonest = math.inf
        for queue, ring in self._rings.items():
            if ring.is_limited:
                _, start_in = await self._connection.run(look_at_limits(queue, self._kinds))
                soonest = min(soonest, max(LEAST_REST, start_in or soonest))
        return soonest
