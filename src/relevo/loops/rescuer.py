"""Take back the jobs of workers that fell silent, and put off what nobody can run.

Every worker process runs one; they share the work through row locks. A rescuer holds
off for one lease where silence proves nothing: after the server started, after this
process could not reach it, and after the server's clock jumped.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from random import Random
from typing import Final

from relevo.db.connect import EngineConnection
from relevo.engine.jobs import session
from relevo.engine.jobs.rescue import (
    end_expired_sessions,
    find_missing_sessions,
    postpone_unserved,
    rescue_lost_jobs,
)
from relevo.loops.settings import WorkerSettings
from relevo.loops.supervise import Pulse
from relevo.model.job import JobState
from relevo.model.pace import RareLook

_LOG: Final = logging.getLogger("relevo.worker")


MISSING_EVERY: Final = 20
"""After so many leases sessions are looked for that jobs name and nobody knows: it is rare."""


class Rescuer:
    """Ends silent sessions and rescues their jobs."""

    def __init__(
        self, settings: WorkerSettings, connection: EngineConnection, kept_kinds: Sequence[str]
    ) -> None:
        self._kept_kinds = kept_kinds
        self._looks = {queue: RareLook() for queue in settings.queues}
        self._lease = settings.lease.total_seconds()
        self._connection = connection
        self._random = Random()  # noqa: S311 -- spreads the ticks, no secret
        self._hold_until = 0.0
        self._missing_at = 0.0
        self._clock: tuple[float, float] | None = None
        self.rescued: int = 0
        self.postponed: int = 0

    async def run(self, pulse: Pulse) -> None:
        """Look a few times in every lease."""
        if pulse.restarts:
            # The last run failed, so heartbeats may have failed as well.
            self._hold_off()
        while True:
            pulse.beat()
            await self._tick()
            await asyncio.sleep(self._lease / 3 * (0.8 + 0.4 * self._random.random()))

    async def _tick(self) -> None:
        clock, up_for = await self._connection.run(session.read_clock())
        now = time.monotonic()
        if up_for < self._lease or self._has_jumped(clock, now):
            self._hold_off()
        self._clock = (clock, now)
        if now >= self._hold_until:
            await self._connection.run(end_expired_sessions())
        if now >= self._missing_at:
            self._missing_at = now + self._lease * MISSING_EVERY
            if missing := await self._connection.run(find_missing_sessions()):
                _LOG.warning("sessions %s are missing, their jobs are taken back", missing)
        # Sessions that have ended are facts; their jobs need no grace.
        rescued = await self._connection.run(
            rescue_lost_jobs(self._kept_kinds), in_transaction=True
        )
        self.rescued += len(rescued)
        for job in rescued:
            what = "failed" if job.state is JobState.FAILED else "due again"
            _LOG.warning(
                "worker lost: job %s of kind %s is %s",
                job.id,
                job.kind,
                what,
                extra={"tenant_id": str(job.tenant_id), "job_id": job.id, "queue": job.queue},
            )
        for queue, look in self._looks.items():
            await self._postpone_unserved(queue, look)

    async def _postpone_unserved(self, queue: str, look: RareLook) -> None:
        begun_at = time.monotonic()
        if not look.is_due(begun_at, 0.0):
            return
        postponed = await self._connection.run(postpone_unserved(queue))
        now = time.monotonic()
        look.end(now, now - begun_at)
        for kind, jobs in postponed.items():
            self.postponed += jobs
            _LOG.warning("no live worker serves kind %s: %s jobs put off", kind, jobs)

    def _hold_off(self) -> None:
        self._hold_until = time.monotonic() + self._lease

    def _has_jumped(self, clock: float, now: float) -> bool:
        if self._clock is None:
            return False
        drift = (clock - self._clock[0]) - (now - self._clock[1])
        return abs(drift) > self._lease / 3
