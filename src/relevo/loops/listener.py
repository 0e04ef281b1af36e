"""Listen for the hint that something is due. A hint lost is a poll's wait, nothing more."""

import asyncio
import contextlib
import logging
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql

from relevo.db.connect import answering_here, with_patience
from relevo.db.pooler import fit_async
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse

_LOG: Final = logging.getLogger("relevo.worker")

CHECK: Final = 10.0
"""After so many silent seconds the listener asks the server whether it still hears it."""

HEARD_WITHIN: Final = 3.0
"""Behind a pooler so many seconds may pass until a notification counts as lost."""


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
            with answering_here(connection, CHECK):
                if not await fit_async(connection) and not await self._hears(connection):
                    _LOG.warning(
                        "LISTEN does not work through this pooler, so an idle worker only polls: "
                        "give a direct connection with RELEVO_LISTEN_DSN or --listen-dsn, or an "
                        "empty one to poll without this warning"
                    )
                    return
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

    async def _hears(self, connection: psycopg.AsyncConnection) -> bool:
        """Try it: a pooler may keep the session, and one that does not takes LISTEN all the same.

        The channel is of this trial alone, for the session that heard of it goes on to others.
        """
        channel = f"relevo_trial_{uuid4().hex}"
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as other:
            await other.execute("SELECT pg_notify(%s, '')", [channel])
        heard = [note async for note in connection.notifies(timeout=HEARD_WITHIN, stop_after=1)]
        return bool(heard)
