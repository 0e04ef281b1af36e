"""Hold one conversation with the server, stage by stage.

Whatever happens in it becomes a verdict: no exception of the library or of the
network leaves this module. Whether the connection is used again is the pool's.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from aiosmtplib import SMTP, SMTPException, SMTPResponseException
from aiosmtplib.response import SMTPResponse

from relevo.integrations.smtp.broken import say_broken
from relevo.integrations.smtp.render import Envelope
from relevo.integrations.smtp.settings import SmtpSettings, Tls
from relevo.integrations.smtp.text import readable
from relevo.integrations.smtp.verdict import (
    Broken,
    ChannelDown,
    Delivery,
    PermanentRefusal,
    Reply,
    Stage,
    TemporaryRefusal,
    judge,
)

_NOT_OFFERED: Final = "does not offer SMTPUTF8, which an address with non-ASCII letters needs"
_FAILURES: Final = (SMTPException, OSError, ValueError)
_LEADING_DOT = re.compile(rb"(?m)^\.")
_QUIT_TIMEOUT: Final = 2.0
"""A farewell nobody depends on: the mail is already decided."""


class Unreachable(Exception):
    """No conversation came about; the verdict says why."""

    def __init__(self, verdict: ChannelDown) -> None:
        super().__init__(verdict.reason)
        self.verdict = verdict


class Connection:
    """A greeted, encrypted and authenticated connection.

    Attributes:
        mails: How many mails it has been given.
        is_usable: Whether the server still expects another mail on it.
    """

    def __init__(self, settings: SmtpSettings, client: SMTP) -> None:
        self._settings = settings
        self._client = client
        self._transport: asyncio.BaseTransport | None = None
        self._secrets = settings.spelled_secrets()
        self.mails = 0
        self.is_usable = True

    @classmethod
    async def open(cls, settings: SmtpSettings, context: ssl.SSLContext | None) -> "Connection":
        """Reach the server and get as far as it takes before the first mail.

        Raises:
            Unreachable: At any stage; nothing is left open.
        """
        client = SMTP(
            hostname=settings.host,
            port=settings.port,
            local_hostname=settings.greeting,
            timeout=settings.timeouts.connect.total_seconds(),
            use_tls=settings.tls is Tls.IMPLICIT,
            start_tls=False,
            tls_context=context,
        )
        connection = cls(settings, client)
        try:
            await connection._prepare()
        except BaseException:
            await connection.abandon()
            raise
        return connection

    async def transmit(self, envelope: Envelope) -> Delivery:
        """Offer one mail and answer what the server made of it."""
        self.mails += 1
        verdict = await self._offer(envelope)
        match verdict:
            case ChannelDown() | TemporaryRefusal(code=None):
                self.is_usable = False
            case _:
                pass
        return verdict

    async def reset(self) -> bool:
        """Clear the envelope; answer whether the server is still there."""
        answer = await self._command(b"RSET")
        self.is_usable = isinstance(answer, Reply) and answer.code == 250  # noqa: PLR2004 -- RFC 5321
        return self.is_usable

    async def quit(self) -> None:
        """Take leave if the server listens, and close."""
        self.is_usable = False
        try:
            with suppress(*_FAILURES):
                await self._client.quit(timeout=_QUIT_TIMEOUT)
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Close without a word."""
        self.is_usable = False
        self._remember_transport()
        self._client.close()
        if isinstance(self._transport, asyncio.WriteTransport):
            # close() of an encrypted transport would wait for the other side's farewell.
            self._transport.abort()
            await asyncio.sleep(0)

    def _remember_transport(self) -> None:
        """Keep the transport: the library forgets it when the server says 421."""
        self._transport = self._client.transport or self._transport

    async def _prepare(self) -> None:
        settings, client = self._settings, self._client
        await self._stage(Stage.CONNECT, client.connect())
        self._remember_transport()
        await self._greet()
        if settings.tls is Tls.STARTTLS:
            await self._stage(Stage.STARTTLS, client.starttls())
            self._remember_transport()
            await self._greet()
        if settings.user:
            login = client.login(settings.user, settings.password.reveal())
            await self._stage(Stage.AUTH, login)

    async def _greet(self) -> None:
        """Say EHLO, or HELO to a server that knows no better and is not asked for more."""
        client = self._client
        answer = await self._answer(client.ehlo())
        plain = self._settings.tls is Tls.OFF and not self._settings.user
        if isinstance(answer, Reply) and answer.code in {500, 501, 502, 504} and plain:
            answer = await self._answer(client.helo())
        self._require(Stage.HELLO, answer)

    async def _stage(self, stage: Stage, asking: Awaitable[SMTPResponse]) -> None:
        self._require(stage, await self._answer(asking))

    def _require(self, stage: Stage, answer: Reply | Broken) -> None:
        """Go on only if the server lets us."""
        if isinstance(verdict := self._judge(stage, answer), ChannelDown):
            raise Unreachable(verdict)

    def _judge(self, stage: Stage, answer: Reply | Broken) -> Delivery | None:
        return judge(stage, answer, self._settings.server)

    async def _offer(self, envelope: Envelope) -> Delivery:
        if envelope.needs_utf8 and not self._client.supports_extension("smtputf8"):
            return self._without_utf8(envelope)
        for stage, command in self._commands(envelope):
            if verdict := self._judge(stage, await self._command(*command)):
                return verdict
        verdict = self._judge(Stage.MESSAGE, await self._hand_over(envelope.content))
        assert verdict is not None  # noqa: S101 -- no stage follows the final dot
        return verdict

    def _commands(self, envelope: Envelope) -> list[tuple[Stage, tuple[bytes, ...]]]:
        options: list[bytes] = []
        if self._client.supports_extension("size"):
            options.append(b"SIZE=%d" % len(envelope.content))
        if envelope.needs_utf8:
            options += [b"BODY=8BITMIME", b"SMTPUTF8"]
        sender = b"FROM:<%b>" % envelope.sender.encode()
        recipient = b"TO:<%b>" % envelope.recipient.encode()
        return [
            (Stage.MAIL, (b"MAIL", sender, *options)),
            (Stage.RCPT, (b"RCPT", recipient)),
            (Stage.DATA, (b"DATA",)),
        ]

    def _without_utf8(self, envelope: Envelope) -> Delivery:
        if envelope.sender_needs_utf8:
            return ChannelDown(f"{self._settings.server} {_NOT_OFFERED}, and RELEVO_SMTP_FROM has")
        return PermanentRefusal(None, f"the mail server {_NOT_OFFERED}")

    async def _command(self, *words: bytes) -> Reply | Broken:
        timeout = self._settings.timeouts.reply.total_seconds()
        return await self._answer(self._client.execute_command(*words, timeout=timeout))

    async def _hand_over(self, content: bytes) -> Reply | Broken:
        """Send the message and its final dot, and wait longer than for anything else."""
        protocol = self._client.protocol
        if protocol is None:
            return Broken("closed the connection")
        timeout = self._settings.timeouts.message.total_seconds()
        # The library's data() does not tell "before 354" from "after the dot", and that is
        # the difference between an outage and a mail that may have been delivered.
        try:
            protocol.write(_LEADING_DOT.sub(b"..", content) + b".\r\n")
        except SMTPException as error:
            return Broken(say_broken(error))
        return await self._answer(protocol.read_response(timeout=timeout))

    async def _answer(self, asking: Awaitable[SMTPResponse]) -> Reply | Broken:
        try:
            response = await asking
        except SMTPResponseException as error:
            return self._reply(error.code, error.message)
        except _FAILURES as error:
            return Broken(say_broken(error))
        return self._reply(response.code, response.message)

    def _reply(self, code: int, text: str) -> Reply:
        # Some servers repeat the command that they refuse, and one command is the password.
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return Reply(code, readable(text))
