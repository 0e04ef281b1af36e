"""Keep the tables from growing for ever: take out what nobody needs any more.

Every worker process runs one; they share the work through row locks. It works in small
steps with a rest between them, so that vacuum and the flow of jobs come first. A duty knows
what to take out; the loop only knows when.
"""

import asyncio
import logging
from random import Random
from typing import Final, Protocol

from relevo.db.connect import EngineConnection
from relevo.engine import archive
from relevo.engine.jobs.prune import BEGINNING, prune
from relevo.engine.limits import prune_permits
from relevo.loops.supervise import Pulse

_LOG: Final = logging.getLogger("relevo.worker")

EVERY: Final = 60.0
REST: Final = 0.1
PERMITS_AT_ONCE: Final = 1000


class Duty(Protocol):
    """Something that the pruner keeps small."""

    async def step(self) -> bool:
        """Do a little; answer whether there is more to be done after a short rest."""
        ...


class FinishedJobs:
    """Takes out finished jobs whose retention is over, into the archive where it is on."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._after = BEGINNING
        self.pruned: int = 0

    async def step(self) -> bool:
        """Take out one batch, behind the one before while there is more."""
        # Not in the batch's transaction: nobody should wait for these locks through it.
        await self._connection.run(archive.make_months(self._after))
        batch = await self._connection.run(prune(self._after), in_transaction=True)
        self.pruned += batch.jobs
        if batch.jobs:
            _LOG.debug("retention is over for %s jobs, %s are archived", batch.jobs, batch.archived)
        # What was locked or skipped is met again when the next look begins.
        self._after = batch.last if batch.is_full else BEGINNING
        return batch.is_full


class ArchivedMonths:
    """Drops whole months of the archive whose time is over."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection

    async def step(self) -> bool:
        """Drop the oldest of them."""
        is_gone = await self._connection.run(archive.drop_month())
        if is_gone:
            _LOG.info("a month of the archive is over and has been dropped")
        return is_gone


class Permits:
    """Takes out permits of lanes and tenants that came once and have gone."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection

    async def step(self) -> bool:
        """Take out one batch."""
        return await self._connection.run(prune_permits(PERMITS_AT_ONCE)) == PERMITS_AT_ONCE


class Pruner:
    """Goes round its duties once a minute, and sooner while one of them has more to do."""

    def __init__(self, connection: EngineConnection) -> None:
        self._random = Random()  # noqa: S311 -- spreads the ticks, no secret
        self._jobs = FinishedJobs(connection)
        self._duties: tuple[Duty, ...] = (
            self._jobs,
            ArchivedMonths(connection),
            Permits(connection),
        )

    @property
    def pruned(self) -> int:
        """How many jobs this process has taken out."""
        return self._jobs.pruned

    async def run(self, pulse: Pulse) -> None:
        """Look once a minute; while there is more, go on after a short rest."""
        while True:
            has_more = False
            for duty in self._duties:
                pulse.beat()
                has_more = await duty.step() or has_more
            rest = REST if has_more else EVERY * (0.5 + self._random.random())
            await self._wait(rest, pulse)

    @staticmethod
    async def _wait(seconds: float, pulse: Pulse) -> None:
        while seconds > 0:
            await asyncio.sleep(min(seconds, 1.0))
            pulse.beat()
            seconds -= 1.0
