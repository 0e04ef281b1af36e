"""Tell what kind of connection an object is, without importing its library.

A kind is known by the full name of a class among the bases of the object's
type, so subclasses count. Only the runner of the kind at hand is imported.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from relevo.db.drivers.errors import UnknownConnection

# The class that marks a kind, and its runner: module and function.
_KINDS = {
    "psycopg.Connection": ("psycopg", "run"),
    "psycopg.AsyncConnection": ("psycopg", "run_async"),
    "asyncpg.connection.Connection": ("asyncpg", "run_async"),
    "asyncpg.pool.PoolConnectionProxy": ("asyncpg", "run_async"),
    "sqlalchemy.engine.base.Connection": ("sqlalchemy", "run"),
    "sqlalchemy.orm.session.Session": ("sqlalchemy", "run_in_session"),
    "sqlalchemy.orm.scoping.scoped_session": ("sqlalchemy", "run_in_session"),
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": ("sqlalchemy", "run_async"),
    "sqlalchemy.ext.asyncio.session.AsyncSession": ("sqlalchemy", "run_async_in_session"),
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": ("sqlalchemy", "run_async_in_registry"),
    "django.db.backends.base.base.BaseDatabaseWrapper": ("django", "run"),
    "django.utils.connection.ConnectionProxy": ("django", "run"),
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
            module, function = known
            run = getattr(import_module(f"relevo.db.drivers.{module}"), function)
            return _found.setdefault(given, Kind(iscoroutinefunction(run), run))
    raise UnknownConnection(given=name_of(given))


def name_of(given: type) -> str:
    """Write a type's full name, as errors and the table of kinds use it."""
    return f"{given.__module__}.{given.__qualname__}"
