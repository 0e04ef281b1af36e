"""A mail server that keeps what it gets and refuses on purpose.

It speaks real SMTP on this machine and delivers to nobody. What it accepts it
writes down, on disk if asked, before it says so.
"""

import asyncio
import json
import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import BytesHeaderParser
from pathlib import Path
from threading import Condition
from types import TracebackType
from typing import Final, Self

from aiosmtpd.smtp import SMTP, Envelope, Session

from relevo.integrations.smtp.sink.server import LocalServer
from relevo.integrations.smtp.sink.temper import Tempers, by_address

BUSY: Final = "451 4.7.1 the mailbox is busy, try again later"
UNKNOWN_USER: Final = "550 5.1.1 no such mailbox here"


@dataclass(frozen=True, slots=True)
class Received:
    """A message that the sink took responsibility for.

    Attributes:
        recipient: Whom the envelope named.
        message_id: The Message-ID header.
        at: When it was taken.
        content: The message, when the sink keeps it.
    """

    recipient: str
    message_id: str
    at: datetime
    content: bytes = b""


class Sink:
    """A local SMTP server to show and to test delivery.

    Args:
        temper: How each address is treated; by default all are accepted.
        log: A file that gets one line of JSON for each message, synced to disk before the
            answer.
        keep_content: Whether messages are kept whole.
    """

    def __init__(
        self,
        temper: Tempers | None = None,
        *,
        log: Path | None = None,
        keep_content: bool = False,
    ) -> None:
        self._temper = temper or by_address()
        self._log = log
        self._keep_content = keep_content
        self._changed = Condition()
        self._received: list[Received] = []
        self._tries: Counter[str] = Counter()
        self._stalls: Counter[str] = Counter()
        self._temporary = 0
        self._permanent = 0
        self._server = LocalServer(self._protocol)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen on a free port of this machine."""
        self._server.start()

    def stop(self) -> None:
        """Break every connection and end."""
        self._server.stop()

    def down(self) -> None:
        """Refuse connections, as a server that has stopped does."""
        self._server.down()

    def up(self) -> None:
        """Listen again, on the same port."""
        self._server.up()

    @property
    def url(self) -> str:
        """What RELEVO_SMTP_URL should be."""
        return f"smtp://{self._server.host}:{self._server.port}"

    @property
    def received(self) -> list[Received]:
        """Every message taken so far, duplicates included, in order."""
        with self._changed:
            return list(self._received)

    @property
    def refused_for_now(self) -> int:
        """How often an address was told to come back."""
        return self._temporary

    @property
    def refused_for_good(self) -> int:
        """How often an address was told never to come back."""
        return self._permanent

    def wait_for(self, count: int, timeout: float) -> bool:
        """Wait until so many messages were taken; answer whether they were in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._received) >= count, timeout)

    def _protocol(self, loop: asyncio.AbstractEventLoop) -> SMTP:
        return SMTP(
            self, enable_SMTPUTF8=True, hostname="localhost", ident="relevo sink", loop=loop
        )

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd calls its hooks by the command's name
        self,
        server: SMTP,  # noqa: ARG002 -- the hook's signature
        session: Session,  # noqa: ARG002 -- the same
        envelope: Envelope,
        address: str,
        options: list[str],  # noqa: ARG002 -- the same
    ) -> str:
        """Answer RCPT TO by the address's temper."""
        temper = self._temper(address)
        if temper.refuse:
            self._permanent += 1
            return UNKNOWN_USER
        self._tries[address] += 1
        if self._tries[address] <= temper.refuse_first:
            self._temporary += 1
            return BUSY
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 recipient accepted"

    async def handle_DATA(  # noqa: N802 -- the same
        self,
        server: SMTP,  # noqa: ARG002 -- the same
        session: Session,  # noqa: ARG002 -- the same
        envelope: Envelope,
    ) -> str:
        """Take the message, and answer unless the address's temper is to fall silent."""
        content = envelope.original_content or b""
        message_id = str(BytesHeaderParser().parsebytes(content)["Message-ID"])
        for address in envelope.rcpt_tos:
            self._take(address, message_id, content)
        for address in envelope.rcpt_tos:
            self._stalls[address] += 1
            if self._stalls[address] <= self._temper(address).stall_first:
                # Until the client gives up: the connection's end cancels this.
                await asyncio.Event().wait()
        return f"250 2.0.0 taken as {len(self._received)}"

    def _take(self, address: str, message_id: str, content: bytes) -> None:
        kept = content if self._keep_content else b""
        message = Received(address, message_id, datetime.now(UTC), kept)
        if self._log is not None:
            _append(self._log, message)
        with self._changed:
            self._received.append(message)
            self._changed.notify_all()


def _append(log: Path, message: Received) -> None:
    """Write a line and wait for the disk, so that a crash after the answer loses nothing."""
    line = {
        "recipient": message.recipient,
        "message_id": message.message_id,
        "at": message.at.isoformat(),
    }
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
