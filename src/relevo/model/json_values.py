"""Walk values that are to become JSON, and name the one that cannot.

Every refusal carries the path of the value (`$.items[3].at`). This module knows
no handler and no row.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relevo.model.errors import PayloadInvalid, PayloadNotJson
from relevo.model.text import clean_text, lower_first

MAX_DEPTH: Final = 64
"""How deep lists and objects may be nested."""

TOO_DEEP: Final = f"it is nested over {MAX_DEPTH} deep"


def clean(value: object) -> object:
    """Copy a value of plain JSON types with every text made fit for PostgreSQL."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean(inner) for inner in value]
    return value


def refuse_unwritable(value: object, path: str) -> None:
    """Raise for the innermost value that has no JSON form."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            refuse_unwritable(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            refuse_unwritable(inner, f"{path}[{place}]")
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise PayloadInvalid(path=path, why="it holds half a surrogate pair") from error
    except TypeError as error:
        raise PayloadNotJson(path=path, type=type(value).__name__) from error
    except (ValueError, OverflowError) as error:
        raise PayloadInvalid(path=path, why=lower_first(error)) from error


def refuse_nul(value: object, path: str) -> None:
    """Raise for the first text or name that holds a NUL."""
    if isinstance(value, str) and "\0" in value:
        raise PayloadInvalid(path=path, why="it holds a NUL character, which PostgreSQL refuses")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(key, str) and "\0" in key:
                raise PayloadInvalid(path=f"{path}.{key!r}", why="its name holds a NUL character")
            refuse_nul(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple | set | frozenset):
        for place, inner in enumerate(value):
            refuse_nul(inner, f"{path}[{place}]")
    elif not isinstance(value, str | int | float | None):
        refuse_nul(msgspec.to_builtins(value), path)


def refuse_not_finite(value: object, path: str) -> None:
    """Raise for the first number that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PayloadInvalid(path=path, why=f"{value} is not a JSON number")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            refuse_not_finite(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            refuse_not_finite(inner, f"{path}[{place}]")


def refuse_unequal(given: object, back: object, path: str, depth: int = 0) -> None:
    """Raise unless `back`, read from the row, is what `given` was."""
    if depth > MAX_DEPTH:
        raise PayloadInvalid(path=path, why=TOO_DEEP)
    if isinstance(given, float) and not math.isfinite(given):
        raise PayloadInvalid(path=path, why=f"{given} is not a JSON number")
    if isinstance(given, dict) and isinstance(back, dict):
        _refuse_unequal_objects(given, back, path, depth + 1)
    elif isinstance(given, list | tuple) and isinstance(back, list | tuple):
        for place, inner in enumerate(given):
            there = back[place] if place < len(back) else None
            refuse_unequal(inner, there, f"{path}[{place}]", depth + 1)
    elif not _is_same(given, back):
        raise PayloadNotJson(path=path, type=type(given).__name__)


def _refuse_unequal_objects(
    given: dict[Any, Any], back: dict[Any, Any], path: str, depth: int
) -> None:
    for key, inner in given.items():
        if key not in back:
            raise PayloadNotJson(path=f"{path}.{key}", type=f"{type(key).__name__} as a name")
        refuse_unequal(inner, back[key], f"{path}.{key}", depth)


def _is_same(given: object, back: object) -> bool:
    # A whole number where the handler takes a float comes back as that float.
    widened = type(given) is int and type(back) is float
    try:
        return given == back and (isinstance(given, type(back)) or widened)
    except ArithmeticError:
        # A signalling NaN, which equals nothing, refuses even to be compared.
        return False
