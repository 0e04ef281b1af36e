"""Text that crosses the border of a mail: into a header, or out of a server's reply."""

import re
from typing import Final

from relevo.model.text import clean_text

MAX_REPLY: Final = 400
"""Characters of a server's reply that are kept: enough to read, too little to flood a row."""

# Everything that some parser takes for the end of a line, and the rest of the controls.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_GAPS = re.compile("[\\s\x00-\x1f\x7f-\x9f]+")


def unsafe_in_header(text: str) -> str:
    """Say why a text cannot stand in a header, or nothing when it can."""
    if _CONTROLS.search(text):
        return "has a line break or another control character"
    return not_text(text)


def not_text(text: str) -> str:
    """Say why a text cannot be encoded, or nothing when it can."""
    if "\0" in text:
        return "has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half a character (a lone surrogate)"
    return ""


def readable(text: str) -> str:
    """Make a server's words one short line that a row can hold."""
    line = _GAPS.sub(" ", clean_text(text)).strip()
    return line if len(line) <= MAX_REPLY else line[: MAX_REPLY - 1] + "…"
