"""Keep the table from growing for ever: delete what its retention no longer keeps.

Every worker process runs one; they share the work through row locks. It pauses between
batches, so that vacuum and the flow of jobs come first.
"""

import asyncio
import logging
from random import Random
from typing import Final

from relevo.db.connect import EngineConnection
from relevo.engine.jobs.prune import BATCH, prune
from relevo.loops.supervise import Pulse

_LOG: Final = logging.getLogger("relevo.worker")

EVERY: Final = 60.0
REST: Final = 0.1


class Pruner:
    """Deletes finished jobs whose time is over."""

    def __init__(self, connection: EngineConnection) -> None:
        self._connection = connection
        self._random = Random()  # noqa: S311 -- spreads the ticks, no secret
        self.pruned: int = 0

    async def run(self, pulse: Pulse) -> None:
        """Look once a minute; while there is more, go on after a short rest."""
        while True:
            pulse.beat()
            gone = await self._connection.run(prune())
            self.pruned += gone
            if gone:
                _LOG.debug("retention is over for %s jobs", gone)
            rest = REST if gone == BATCH else EVERY * (0.5 + self._random.random())
            await self._wait(rest, pulse)

    @staticmethod
    async def _wait(seconds: float, pulse: Pulse) -> None:
        while seconds > 0:
            await asyncio.sleep(min(seconds, 1.0))
            pulse.beat()
            seconds -= 1.0
