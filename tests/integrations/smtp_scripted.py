"""A real server that answers each stage as a script says: a reply, "drop" or "stall"."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

from relevo.integrations.smtp import (
    Mail,
    Mailbox,
    SmtpChannel,
    SmtpSettings,
    Timeouts,
    Tls,
    message_id,
)

# For servers that fall silent on purpose; a server that answers gets the usual time.
IMPATIENT = Timeouts(*[timedelta(milliseconds=300)] * 3)
OFFERS = ("AUTH PLAIN", "SIZE 1000000", "SMTPUTF8", "8BITMIME")
USUAL = {
    "connect": "220 scripted",
    "STARTTLS": "220 go ahead",
    "AUTH": "235 welcome",
    "MAIL FROM": "250 sender fine",
    "RCPT TO": "250 recipient fine",
    "DATA": "354 go on",
    "the final dot": "250 taken",
    "RSET": "250 clean",
    "QUIT": "221 bye",
}
STAGES = {"MAIL": "MAIL FROM", "RCPT": "RCPT TO"}


def a_mail(to: str = "ana@example.com", name: str = "", **changes) -> Mail:
    identity = message_id(UUID(int=1), "test.mail", 7, to)
    usual = {"to": Mailbox(to, name), "subject": "s", "text": "t", "message_id": identity}
    return Mail(**usual | changes)


def some_settings(port: int, **changes) -> SmtpSettings:
    usual = {
        "host": "127.0.0.1",
        "tls": Tls.OFF,
        "sender": Mailbox("hr@example.com"),
    }
    return SmtpSettings(port=port, **usual | changes)


class Gone(Exception):
    """The script ends the connection here."""


class ScriptedServer:
    """Connection number n follows script n; the last script serves all that follow.

    Attributes:
        lines: Every command and message line, over all connections.
        connections: How many were opened.
        most_open: The most that were open together.
        mails: How many messages were handed over, whatever was answered.
        gate: While it is clear, no message gets its last answer.
    """

    def __init__(self, scripts: tuple[dict[str, str], ...], offers: tuple[str, ...]) -> None:
        self.scripts = scripts or ({},)
        self.offers = offers
        self.port = 0
        self.lines: list[bytes] = []
        self.talks: list[Talk] = []
        self.connections = self.open = self.most_open = self.mails = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Condition()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(condition)

    async def talk(self, reader: StreamReader, writer: StreamWriter) -> None:
        script = USUAL | self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            self.talks.append(Talk(self, script, reader, writer))
            await self.talks[-1].run()
        except (Gone, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()
            await self.tell()

    async def tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class Talk:
    """One connection."""

    def __init__(self, server: ScriptedServer, script, reader, writer) -> None:
        self.server, self.script, self.reader, self.writer = server, script, reader, writer

    async def run(self) -> None:
        await self.answer("connect")
        while line := await self.reader.readline():
            self.server.lines.append(line)
            word = line.split()[0].decode().upper()
            stage = STAGES.get(word, word)
            if stage == "EHLO" and stage not in self.script:
                *more, last = ("scripted", *self.server.offers)
                await self.say("".join(f"250-{offer}\r\n" for offer in more) + f"250 {last}")
            else:
                await self.answer(stage)

    async def answer(self, stage: str) -> None:
        said = self.script.get(stage, "502 not in the script")
        if said == "stall":
            await self.reader.read()
        if said in {"stall", "drop"}:
            raise Gone
        await self.say(said)
        if said.startswith("421") or stage == "QUIT":
            raise Gone
        if stage == "DATA" and said.startswith("354"):
            await self.take()

    async def say(self, text: str) -> None:
        self.writer.write(text.encode("utf-8", "surrogateescape") + b"\r\n")
        await self.writer.drain()

    async def take(self) -> None:
        while (line := await self.reader.readline()) != b".\r\n":
            if not line:
                raise Gone
            self.server.lines.append(line)
        self.server.mails += 1
        await self.server.tell()
        await self.server.gate.wait()
        await self.answer("the final dot")


@asynccontextmanager
async def scripted(*scripts: dict[str, str], offers=OFFERS) -> AsyncIterator[ScriptedServer]:
    script = ScriptedServer(scripts, offers)
    talks: set[asyncio.Task] = set()

    async def accept(reader: StreamReader, writer: StreamWriter) -> None:
        talks.add(asyncio.current_task())
        await script.talk(reader, writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def conversation(
    *scripts: dict[str, str], offers=OFFERS, **changes
) -> AsyncIterator[tuple[ScriptedServer, SmtpChannel]]:
    """A scripted server and a channel to it, settings changed as said."""
    async with (
        scripted(*scripts, offers=offers) as server,
        SmtpChannel(some_settings(server.port, **changes)) as channel,
    ):
        yield server, channel
