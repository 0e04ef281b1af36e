"""Listen for the hint that something is due. A hint lost is a poll's wait, nothing more."""

import asyncio
import contextlib
from typing import Final

import psycopg

from relevo.db.connect import answering_here, with_patience
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse

CHECK: Final = 10.0
"""After so many silent seconds the listener asks the server whether it still hears it."""


class Listener:
    """Hears notifications on a direct connection and wakes the claimer."""

    def __init__(self, dsn: str, queues: tuple[str, ...], woken: Signal) -> None:
        self._dsn = with_patience(dsn)
        self._queues = frozenset(queues)
        self._woken = woken

    async def run(self, pulse: Pulse) -> None:
        """Listen for ever; a failure is the supervisor's to mend."""
        connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        try:
            await connection.execute("LISTEN relevo")
            # What was announced while nobody listened is looked for at once.
            self._woken.set()
            silent = 0.0
            while True:
                pulse.beat()
                heard = False
                async for notification in connection.notifies(timeout=1.0, stop_after=1):
                    heard = True
                    if notification.payload in self._queues:
                        self._woken.set()
                silent = 0.0 if heard else silent + 1.0
                if silent >= CHECK:
                    with answering_here(connection, CHECK):
                        await connection.execute("SELECT")
                    silent = 0.0
        finally:
            with contextlib.suppress(psycopg.Error, asyncio.CancelledError):
                await connection.close()
