"""Tell a loop from any thread that there is something to do."""

import asyncio
import contextlib


class Signal:
    """An event that any thread may set and one loop waits for; many sets are one wake-up.

    Args:
        loop: The loop that waits.
        also: Another signal that is set whenever this one is.

    Attributes:
        sets: How often it was set so far, roughly where several threads do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, also: "Signal | None" = None) -> None:
        self._loop = loop
        self._also = also
        self._event = asyncio.Event()
        self._is_set = False
        self.sets = 0

    def set(self) -> None:
        """Wake the loop, now or as soon as it waits."""
        self.sets += 1
        if self._also is not None:
            self._also.set()
        if not self._is_set:
            self._is_set = True
            # A handler that outlived its worker still says so; nobody listens then.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 -- a bound is the point
        """Wait for the next set and consume it; answer False where the time ran out, in seconds."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except TimeoutError:
            return False
        # Cleared before the caller looks at the work, so that no set is lost in between.
        self._event.clear()
        self._is_set = False
        return True
