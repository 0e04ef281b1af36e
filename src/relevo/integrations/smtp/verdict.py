"""Decide what a server's answer means for the mail and for the channel.

The rule is one pure function over the stage of the dialogue and the answer.
What can be laid on this recipient or this message is a refusal; everything else
is the channel's, pauses it, and costs nobody an attempt. docs/reference/mail.md
has the same rule as a table, and the tests read that table.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias


class Stage(StrEnum):
    """Where in the dialogue the answer came; the value is what a person reads."""

    CONNECT = "connect"
    HELLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL FROM"
    RCPT = "RCPT TO"
    DATA = "DATA"
    MESSAGE = "the final dot"


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server said: a code and one readable line."""

    code: int
    text: str

    def __str__(self) -> str:
        return f"{self.code} {self.text}".rstrip()


@dataclass(frozen=True, slots=True)
class Broken:
    """The server said nothing that counts; `what` continues the sentence "the server …"."""

    what: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """The server has taken responsibility for the mail."""

    reply: str


@dataclass(frozen=True, slots=True)
class TemporaryRefusal:
    """Not now, for this recipient or message; `code` is None when the result is unknown."""

    code: int | None
    text: str


@dataclass(frozen=True, slots=True)
class PermanentRefusal:
    """Never, for this recipient or message; `code` is None when no server was asked."""

    code: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ChannelDown:
    """Nobody's mail gets through here at present."""

    reason: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """The mail was not to be sent from here, and was not."""

    reason: str


Delivery: TypeAlias = Delivered | TemporaryRefusal | PermanentRefusal | ChannelDown | Withheld

_CLOSING: Final = 421
_START_INPUT: Final = 354
_TEMPORARY = range(400, 500)
_PERMANENT = range(500, 600)
# The server wants an identity or encryption: an operator's work, whoever the recipient is.
_ASKS_AUTH: Final = frozenset({530, 534, 535, 538})
_SESSION: Final = frozenset({Stage.CONNECT, Stage.HELLO, Stage.STARTTLS, Stage.AUTH})

UNKNOWN: Final = (
    "the whole message was handed over and the server %s, so it may have been delivered; "
    "the next try carries the same Message-ID"
)


def judge(stage: Stage, answer: Reply | Broken, server: str) -> Delivery | None:
    """Say what an answer means, or None when the dialogue simply goes on.

    Args:
        stage: What was being asked.
        answer: The reply, or how the connection went bad.
        server: Host and port, for the person who reads the reason.
    """
    if isinstance(answer, Broken):
        if stage is Stage.MESSAGE:
            return TemporaryRefusal(None, UNKNOWN % answer.what)
        return ChannelDown(f"{server} {answer.what}{_at(stage)}")
    if _goes_on(stage, answer.code):
        return Delivered(str(answer)) if stage is Stage.MESSAGE else None
    if _is_about_the_mail(stage, answer):
        return _refusal(answer)
    if stage is Stage.MESSAGE and answer.code != _CLOSING:
        return TemporaryRefusal(None, UNKNOWN % f"answered {answer}")
    return ChannelDown(f"{server} answered {answer}{_at(stage)}{_hint(stage, answer)}")


def _at(stage: Stage) -> str:
    return "" if stage is Stage.CONNECT else f" at {stage}"


def _goes_on(stage: Stage, code: int) -> bool:
    return code == _START_INPUT if stage is Stage.DATA else code in range(200, 300)


def _is_about_the_mail(stage: Stage, answer: Reply) -> bool:
    """Whether the answer can be laid on this recipient or message."""
    if answer.code not in _TEMPORARY and answer.code not in _PERMANENT:
        return False
    if answer.code == _CLOSING or stage in _SESSION:
        return False
    if stage is Stage.MAIL:
        # It names the sender, which is everybody's; only size and alphabet are this mail's.
        return answer.code == 552 or answer.text.startswith(("5.3.4", "5.6.7"))  # noqa: PLR2004 -- RFC 1870: message too big
    return stage is Stage.MESSAGE or answer.code not in _ASKS_AUTH


def _refusal(answer: Reply) -> TemporaryRefusal | PermanentRefusal:
    refusal = TemporaryRefusal if answer.code in _TEMPORARY else PermanentRefusal
    return refusal(answer.code, answer.text)


def _hint(stage: Stage, answer: Reply) -> str:
    """What an operator can do, where it is plain."""
    if answer.code not in _PERMANENT:
        return ""
    if stage is Stage.AUTH or answer.code in _ASKS_AUTH:
        return "; check the user and password of RELEVO_SMTP_URL"
    if stage is Stage.MAIL:
        return "; check that the server lets this account send as RELEVO_SMTP_FROM"
    return ""
