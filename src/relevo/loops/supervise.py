"""Keep loops alive: restart one that fails, and one that hangs; count both."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import psycopg

from relevo.db.connect import is_transient
from relevo.loops.waits import Waits

_LOG: Final = logging.getLogger("relevo.worker")

RESTART_AFTER: Final = 0.5
RESTART_AT_MOST: Final = 5.0


@dataclass(slots=True)
class Pulse:
    """When a loop last said that it goes on, by this process's own clock.

    Attributes:
        name: The loop's name in logs.
        limit: After how many silent seconds the loop counts as hanging.
        restarts: How often it had to be started again.
    """

    name: str
    limit: float
    beaten_at: float = field(default_factory=time.monotonic)
    restarts: int = 0

    def beat(self) -> None:
        """Say that the loop goes on."""
        self.beaten_at = time.monotonic()

    def is_silent(self) -> bool:
        """Whether the loop has said nothing for too long."""
        return time.monotonic() - self.beaten_at > self.limit


Loop = Callable[[Pulse], Awaitable[None]]


async def supervise(loop: Loop, pulse: Pulse) -> None:
    """Run a loop until it returns; start it again when it fails or hangs.

    A database that is away is waited for quietly; any other failure is logged with
    its trace. The wait between starts doubles up to a bound, and differs by chance.
    """
    waits = Waits(RESTART_AFTER, RESTART_AT_MOST)
    while True:
        pulse.beat()
        body = asyncio.ensure_future(loop(pulse))
        try:
            while not body.done():
                await asyncio.wait({body}, timeout=min(1.0, pulse.limit / 2))
                if not body.done() and pulse.is_silent():
                    _LOG.error("loop %s hangs, starting it again", pulse.name)
                    break
            if body.done():
                body.result()
                return
        except Exception as error:  # noqa: BLE001 -- whatever it was, the loop has to go on
            _report(pulse.name, error)
        finally:
            await _end(body)
        if time.monotonic() - pulse.beaten_at > RESTART_AT_MOST:
            waits.begin_anew()
        pulse.restarts += 1
        await asyncio.sleep(waits.next())


def _report(name: str, error: Exception) -> None:
    if isinstance(error, psycopg.Error) and is_transient(error):
        _LOG.warning("loop %s waits for the database: %s", name, " ".join(str(error).split()))
    else:
        _LOG.error("loop %s failed, starting it again", name, exc_info=error)


async def _end(body: "asyncio.Future[None]") -> None:
    if body.done():
        return
    body.cancel()
    # A body that swallows its cancellation is left behind; the new start takes over.
    await asyncio.wait({body}, timeout=1.0)
