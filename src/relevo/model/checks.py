"""Refuse what an option cannot be: another type, several or one, no name, no time at all.

Whoever passes seconds where a time is meant reads how to write it, not what Python or the
database made of them. Nothing here knows which options there are.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NoReturn

from relevo.model.errors import InvalidOption

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")

_SHOWN: Final = 40
"""So many characters of a text are repeated."""

_REMEDIES: Final[dict[type, str]] = {
    bool: "pass True or False",
    datetime: "pass an aware datetime",
    float: "pass a number",
    int: "pass a whole number",
    str: "pass text",
    timedelta: "pass a timedelta, such as timedelta(seconds=5)",
}


def refuse(option: str, value: object, why: str, what_next: str) -> NoReturn:
    """Raise what tells a caller which value makes no sense, why, and what to pass instead."""
    raise InvalidOption(option=option, value=value, why=why, next=what_next)


def check_type(option: str, value: object, wanted: type) -> None:
    """Refuse a value of another type; True is no number here, and a whole number is a float."""
    if _is_of(value, wanted):
        return
    shown = value[:_SHOWN] if isinstance(value, str) else value
    why = f"it takes {wanted.__name__}, not {type(value).__name__}"
    refuse(option, shown, why, _remedy(value, wanted))


def check_several(option: str, values: object) -> None:
    """Refuse a single value, and a text, where several values are meant."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        refuse(option, values, "it takes several values", "put it in a list")


def check_name(option: str, value: object, pattern: re.Pattern[str] = _NAME) -> None:
    """Refuse a name that is not lower-case letters, digits, dot, dash and underscore."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidOption(
            option=option,
            value=value,
            why="a name has a-z, 0-9, dot, dash and underscore, and starts with a letter or digit",
            next="choose another name",
        )


def check_positive(option: str, value: timedelta) -> None:
    """Refuse what is no duration, or is not above zero."""
    check_type(option, value, timedelta)
    if value <= timedelta(0):
        raise InvalidOption(
            option=option, value=str(value), why="it must be above zero", next="pass a longer time"
        )


def _is_of(value: object, wanted: type) -> bool:
    if wanted is int:
        return type(value) is int
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, wanted)


def _remedy(value: object, wanted: type) -> str:
    if wanted is timedelta and _is_of(value, float):
        return f"pass timedelta(seconds={value})"
    return _REMEDIES.get(wanted, f"pass a {wanted.__name__}")
