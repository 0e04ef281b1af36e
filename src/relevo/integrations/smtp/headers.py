"""Write the head of a mail, line by line.

The standard library is not asked to: its message objects decode an encoded word
that stands in a value they are given, so a person whose name is `=?utf-8?q?=0A…?=`
could add a header (until CPython 3.11.10). Here a value is only ever encoded.
"""

import re
from email.header import Header
from typing import Final

from relevo.integrations.smtp.mailbox import Mailbox

_LINE: Final = 78
_LONGEST_WORD: Final = 900
_ATOMS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]+")


def text_header(name: str, text: str) -> str:
    """Write a header of free text, folded, with its accents encoded."""
    if _is_plain(text):
        return _folded(name, text)
    return f"{name}: {_encoded(text, len(name) + 2)}\r\n"


def mailbox_header(name: str, mailbox: Mailbox) -> str:
    """Write a header of one mailbox."""
    if not mailbox.name.strip():
        return f"{name}: {mailbox.wire}\r\n"
    if not _is_plain(mailbox.name):
        phrase = _encoded(mailbox.name, len(name) + 2)
        return f"{name}: {phrase}\r\n <{mailbox.wire}>\r\n"
    shown = " ".join(mailbox.name.split())
    if not _ATOMS.fullmatch(shown):
        escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
        shown = f'"{escaped}"'
    return _folded(name, f"{shown} <{mailbox.wire}>")


def _is_plain(text: str) -> bool:
    """Whether a text can stand as it is, and cannot be taken for an encoded word."""
    words = text.split()
    return text.isascii() and "=?" not in text and all(len(word) <= _LONGEST_WORD for word in words)


def _encoded(text: str, used: int) -> str:
    # header_name only tells how much of the first line is taken.
    return Header(text, "utf-8", header_name="x" * used).encode(linesep="\r\n")


def _folded(name: str, text: str) -> str:
    """Break between words only; runs of spaces become one, so no line is ever blank."""
    lines = [f"{name}:"]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > _LINE and lines[-1] != f"{name}:":
            lines.append("")
        lines[-1] += f" {word}"
    return "\r\n".join(lines) + "\r\n"
