"""Take back the jobs of workers that fell silent, and put off what nobody can run.

Every worker process runs one; they share the work through row locks. It looks a few times
in every lease, and when one ends: a worker that lives renews its own long before. A rescuer holds
off for one lease where silence proves nothing: after the server started, after this
process could not reach it, even if it was its heartbeat alone, and after the server's clock jumped.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from math import inf
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
from relevo.loops.heartbeat import Heartbeat
from relevo.loops.settings import WorkerSettings
from relevo.loops.supervise import Pulse
from relevo.model.job import JobState
from relevo.model.pace import RareLook

_LOG: Final = logging.getLogger("relevo.worker")

SHORTEST: Final = 1 / 60
"""So much of a lease a rescuer rests at least."""

LATE: Final = 1 / 60
LATE_AT_MOST: Final = 0.5
"""So much of a lease, and so many seconds, it looks at most after a lease has ended."""

MISSING_EVERY: Final = 20
"""After so many leases sessions are looked for that jobs name and nobody knows: it is rare."""


def rest(lease: float, soon: float, chance: float) -> float:
    """Answer for how many seconds a rescuer rests.

    Args:
        lease: Of its own worker, in seconds.
        soon: In how many seconds the next lease ends, or the hold-off; below zero where it
            ended while the rescuer looked.
        chance: From 0 to 1, so that not all of them look at once.
    """
    usual = lease / 3 * (0.8 + 0.4 * chance)
    late = min(LATE_AT_MOST, lease * LATE) * chance
    return min(usual, max(soon, lease * SHORTEST) + late)


class Rescuer:
    """Ends silent sessions and rescues their jobs."""

    def __init__(
        self,
        settings: WorkerSettings,
        connection: EngineConnection,
        kept_kinds: Sequence[str],
        heartbeat: Heartbeat,
    ) -> None:
        self._heartbeat = heartbeat
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
        """Look a few times in every lease, and when one ends that nobody renewed."""
        if pulse.restarts:
            # The last run failed, so heartbeats may have failed as well.
            self._hold_off()
        while True:
            pulse.beat()
            again_at = await self._tick()
            soon = again_at - time.monotonic()
            await asyncio.sleep(rest(self._lease, soon, self._random.random()))

    async def _tick(self) -> float:
        """Do what is due; answer when a lease, or the hold-off, ends by this process's clock."""
        clock = await self._connection.run(session.read_clock())
        now = time.monotonic()
        if clock.up_for < self._lease or self._has_jumped(clock.now, now):
            self._hold_off()
        self._clock = (clock.now, now)
        # What keeps its own heartbeat from the server may keep those of others from it.
        self._hold_until = max(self._hold_until, self._heartbeat.failed_at + self._lease)
        if now < self._hold_until:
            again_at = self._hold_until
        else:
            again_at = inf if clock.lease_ends_in is None else now + clock.lease_ends_in
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
        return again_at

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
