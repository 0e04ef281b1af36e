"""Make text that a handler produced fit for a row: no NUL, no endless error.

This stands on the failure path, so it never raises.
"""

import re
import traceback
from typing import Final

MAX_ERROR_BYTES: Final = 8 * 1024
"""How much of an error is kept on a row."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_CUT: Final = " … [truncated, %d characters in all]"


def clean_text(text: str) -> str:
    """Replace what PostgreSQL's text cannot hold (NUL, lone surrogates) by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def fit_error(text: str, limit: int = MAX_ERROR_BYTES) -> str:
    """Clean an error text and cut it to a number of bytes, saying so where it was cut.

    Args:
        text: The text as the handler produced it, of any length.
        limit: The most bytes of UTF-8 to keep, at least 100.
    """
    if len(text) <= limit // 4:
        return clean_text(text)
    cut = _CUT % len(text)
    # No character is shorter than a byte, so the slice is enough to fill the limit.
    cleaned = clean_text(text[:limit])
    encoded = cleaned.encode()
    if len(encoded) <= limit and len(text) <= limit:
        return cleaned
    return encoded[: limit - len(cut.encode())].decode(errors="ignore") + cut


def lower_first(error: BaseException) -> str:
    """Say another library's error inside a sentence of ours."""
    text = str(error)
    return text[:1].lower() + text[1:]


def describe_error(error: BaseException) -> str:
    """Say an exception in one readable line: its type and its message."""
    try:
        message = str(error)
    except BaseException as broken:  # noqa: BLE001 -- a broken __str__ must not hide the failure
        message = f"(its message could not be read: {type(broken).__name__})"
    name = type(error).__name__
    return fit_error(f"{name}: {message}" if message else name)


def trace_error(error: BaseException) -> str:
    """Say an exception for the attempt's history: its line, then the innermost frames."""
    head = describe_error(error)
    frames = "".join(traceback.format_tb(error.__traceback__)[-6:])
    room = MAX_ERROR_BYTES - len(head.encode()) - 1
    if not frames or room < 200:  # noqa: PLR2004 -- a few bytes of a trace help nobody
        return head
    return f"{head}\n{fit_error(frames, room)}"
