"""Run an operation on the connection that the caller already has.

Each library has its own small runner; it is imported when the first connection
of its kind arrives, so none of the libraries is needed otherwise. A runner
never commits, never opens a transaction, and leaves the caller's settings alone.
"""

from collections.abc import Awaitable
from typing import TypeVar

from relevo.db.drivers.errors import (
    NeedsAsyncConnection,
    NeedsSyncConnection,
    NotInTransaction,
    OperationSpent,
    UnknownConnection,
)
from relevo.db.drivers.kinds import kind_of, name_of
from relevo.db.operation import Operation

__all__ = [
    "NeedsAsyncConnection",
    "NeedsSyncConnection",
    "NotInTransaction",
    "OperationSpent",
    "UnknownConnection",
    "is_async",
    "run",
    "run_async",
    "start",
]

T = TypeVar("T")


def is_async(connection: object) -> bool:
    """Say whether work on this connection is awaited.

    Args:
        connection: Any kind of connection that relevo works on.

    Raises:
        UnknownConnection: It is none of them.
    """
    return kind_of(connection).is_async


def run(connection: object, operation: Operation[T]) -> T:
    """Run an operation inside the transaction of a synchronous connection.

    On commit everything that the operation wrote appears together with the
    caller's own writes; on roll-back nothing of it remains.

    Args:
        connection: psycopg's Connection, SQLAlchemy's Connection or Session, or Django's.
        operation: A new operation.

    Returns:
        The operation's answer.

    Raises:
        UnknownConnection: relevo does not know this kind of connection.
        NeedsSyncConnection: The connection is asynchronous.
        NotInTransaction: The connection commits by itself and the operation must not.
        OperationSpent: The operation ran before.
    """
    kind = kind_of(connection)
    if kind.is_async:
        raise NeedsSyncConnection(given=name_of(type(connection)))
    _refuse_spent(operation)
    answer: T = kind.run(connection, operation)
    return answer


async def run_async(connection: object, operation: Operation[T]) -> T:
    """Run an operation inside the transaction of an asynchronous connection.

    Args:
        connection: psycopg's AsyncConnection, asyncpg's Connection, or
            SQLAlchemy's AsyncConnection or AsyncSession.
        operation: A new operation.

    Returns:
        The operation's answer.

    Raises:
        UnknownConnection: relevo does not know this kind of connection.
        NeedsAsyncConnection: The connection is synchronous.
        NotInTransaction: The connection commits by itself and the operation must not.
        OperationSpent: The operation ran before.
    """
    kind = kind_of(connection)
    if not kind.is_async:
        raise NeedsAsyncConnection(given=name_of(type(connection)))
    _refuse_spent(operation)
    answer: T = await kind.run(connection, operation)
    return answer


def start(connection: object, operation: Operation[T]) -> T | Awaitable[T]:
    """Run an operation at once, or answer what is awaited for it, as the connection is.

    Args:
        connection: Any connection that `run` or `run_async` takes.
        operation: A new operation.

    Raises:
        UnknownConnection: relevo does not know this kind of connection.
        NotInTransaction: The connection commits by itself and the operation must not.
        OperationSpent: The operation ran before.
    """
    kind = kind_of(connection)
    _refuse_spent(operation)
    answer: T | Awaitable[T] = kind.run(connection, operation)
    return answer


def _refuse_spent(operation: Operation[T]) -> None:
    # A finished generator would answer None as if its work had been done again.
    if getattr(operation, "gi_frame", operation) is None:
        name: str = getattr(operation, "__qualname__", type(operation).__qualname__)
        raise OperationSpent(operation=name)
