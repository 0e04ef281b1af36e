"""Keep a few connections to the server, and never more than was agreed.

A connection is reused while it is good. One that went bad while it waited is
replaced, and the mail is offered once more: nothing of it had been taken. What a
new connection says is final.
"""

import asyncio
import ssl
from asyncio import Semaphore, Task, TimerHandle
from collections import deque

from relevo.integrations.smtp.connection import Connection, Unreachable
from relevo.integrations.smtp.errors import MailChannelClosed
from relevo.integrations.smtp.render import Envelope
from relevo.integrations.smtp.settings import SmtpSettings
from relevo.integrations.smtp.verdict import ChannelDown, Delivery


class Pool:
    """The connections of one channel, all on one event loop.

    Args:
        settings: How many, for how long, and to where.
        context: What verifies the server; None without TLS.
    """

    def __init__(self, settings: SmtpSettings, context: ssl.SSLContext | None) -> None:
        self._settings = settings
        self._context = context
        # A slot is held by whoever uses, opens or closes a connection. Idle ones hold none,
        # but they are always taken first, so idle and used together never exceed the slots.
        self._slots = Semaphore(settings.connections)
        self._idle: deque[tuple[float, Connection]] = deque()
        self._timer: TimerHandle | None = None
        self._reaper: Task[None] | None = None
        self._closed = False

    async def transmit(self, envelope: Envelope) -> Delivery:
        """Offer a mail on a connection that waits, or on a new one.

        Raises:
            MailChannelClosed: The pool takes no more mails.
        """
        async with self._slots:
            if self._closed:
                raise MailChannelClosed
            if connection := await self._waiting():
                verdict = await self._use(connection, envelope)
                if not isinstance(verdict, ChannelDown):
                    return verdict
            try:
                connection = await Connection.open(self._settings, self._context)
            except Unreachable as unreachable:
                return unreachable.verdict
            return await self._use(connection, envelope)

    async def close(self) -> None:
        """Let the mails under way end, then take leave on every connection."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reaper is not None:
            await self._reaper
        for _ in range(self._settings.connections):
            await self._slots.acquire()
        while self._idle:
            await self._idle.pop()[1].quit()
        for _ in range(self._settings.connections):
            self._slots.release()

    async def _waiting(self) -> Connection | None:
        """Take the connection that waited least, if the server still answers on it."""
        while self._idle:
            _, connection = self._idle.pop()
            if await self._still_good(connection):
                return connection
            await connection.abandon()
        return None

    async def _still_good(self, connection: Connection) -> bool:
        try:
            return await connection.reset()
        except BaseException:
            await connection.abandon()
            raise

    async def _use(self, connection: Connection, envelope: Envelope) -> Delivery:
        try:
            verdict = await connection.transmit(envelope)
        except BaseException:
            # Cancelled in mid-sentence: nobody knows which answer comes next on this one.
            await connection.abandon()
            raise
        await self._give_back(connection)
        return verdict

    async def _give_back(self, connection: Connection) -> None:
        if not connection.is_usable:
            await connection.abandon()
        elif self._closed or connection.mails >= self._settings.mails_per_connection:
            await connection.quit()
        else:
            self._idle.append((asyncio.get_running_loop().time(), connection))
            self._watch_idle()

    def _watch_idle(self) -> None:
        """Come back when the connection that waits longest has waited enough.

        A timer and not a task: a loop that ends without `close` has nothing to complain of.
        """
        if self._idle and self._timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            due_at = self._idle[0][0] + self._settings.idle_for.total_seconds()
            self._timer = loop.call_at(due_at, self._start_reaping)

    def _start_reaping(self) -> None:
        self._reaper = asyncio.create_task(self._reap(), name="relevo-smtp-idle")

    async def _reap(self) -> None:
        """Close what has waited too long."""
        enough = asyncio.get_running_loop().time() - self._settings.idle_for.total_seconds()
        async with self._slots:
            while self._idle and self._idle[0][0] <= enough:
                await self._idle.popleft()[1].quit()
        self._timer = None
        self._watch_idle()
