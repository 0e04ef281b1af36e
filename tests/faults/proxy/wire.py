"""Read the messages of PostgreSQL's protocol as they pass; nothing is changed, nothing kept.

Plain connections only: whoever goes through says `sslmode=disable gssencmode=disable`.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

READY = b"Z"
DONE = b"C"
ASKS = (b"Q", b"S")
"""A simple query, and the end of an extended one: the server answers each with a READY."""

IDLE = b"I"
_HEAD = 5
_STARTUP_HEAD = 4


@dataclass(slots=True)
class Messages:
    """One direction of one connection, cut into messages.

    Attributes:
        has_startup: Whether a message without a letter comes first, as from a client.
    """

    has_startup: bool
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Answer the letter and the body of each message that is whole by now."""
        self._rest += data
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> tuple[bytes, bytes] | None:
        head = _STARTUP_HEAD if self.has_startup else _HEAD
        if len(self._rest) < head:
            return None
        (length,) = struct.unpack_from("!I", self._rest, head - 4)
        end = head - 4 + length
        if len(self._rest) < end:
            return None
        letter = b"" if self.has_startup else self._rest[:1]
        body, self._rest = self._rest[head:end], self._rest[end:]
        self.has_startup = False
        return letter, body


def program_of(startup: bytes) -> str:
    """Answer the application_name that a client begins with; a request to cancel has none."""
    words = startup[4:].split(b"\0")
    given = dict(zip(words[::2], words[1::2], strict=False))
    return given.get(b"application_name", b"").decode()
