"""Tell what kind of connection an object is, without importing its library.

A kind is known by the full name of a class among the bases of the object's
type, so subclasses count. Only the runner of the kind at hand is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from relevo.db.drivers.errors import ACCEPTED, UnknownConnection

# The class that marks a kind: the runner's module, and whether it awaits.
_KINDS = {
    "psycopg.Connection": ("psycopg", False),
    "psycopg.AsyncConnection": ("psycopg", True),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of connection.

    Attributes:
        is_async: Its runner is awaited.
        run: Its runner, called with the connection and the operation.
    """

    is_async: bool
    run: Callable[[Any, Any], Any]


_found: dict[type, Kind] = {}


def kind_of(connection: object) -> Kind:
    """Find the kind of a connection by its type.

    Args:
        connection: The object that the caller passed.

    Raises:
        UnknownConnection: No base of its type is a connection that relevo knows.
    """
    given = type(connection)
    if kind := _found.get(given):
        return kind
    for base in given.__mro__:
        if known := _KINDS.get(name_of(base)):
            module, is_async = known
            runners = import_module(f"relevo.db.drivers.{module}")
            run = runners.run_async if is_async else runners.run
            return _found.setdefault(given, Kind(is_async, run))
    raise UnknownConnection(given=name_of(given), accepted=ACCEPTED)


def name_of(given: type) -> str:
    """Write a type's full name, as errors and the table of kinds use it."""
    return f"{given.__module__}.{given.__qualname__}"
