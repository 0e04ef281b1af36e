"""Do work on whatever connection the caller already has.

On a synchronous connection the answer comes at once, on an asynchronous one it is
awaited. The work happens inside the caller's transaction, which nobody here commits.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

from relevo.db.drivers import start
from relevo.db.operation import Operation

T = TypeVar("T")


class DjangoConnection(Protocol):
    """What `django.db.connection` is to relevo."""

    in_atomic_block: bool
    settings_dict: dict[str, Any]


if TYPE_CHECKING:
    import asyncpg
    import asyncpg.pool
    import psycopg
    import sqlalchemy
    import sqlalchemy.ext.asyncio
    import sqlalchemy.orm

    SyncConnection: TypeAlias = (
        psycopg.Connection[Any] | sqlalchemy.Connection | sqlalchemy.orm.Session | DjangoConnection
    )
    AsyncConnection: TypeAlias = (
        psycopg.AsyncConnection[Any]
        | asyncpg.Connection
        | asyncpg.pool.PoolConnectionProxy
        | sqlalchemy.ext.asyncio.AsyncConnection
        | sqlalchemy.ext.asyncio.AsyncSession
    )
else:
    # For readers and type checkers only: none of the libraries is needed to import this.
    SyncConnection = object
    AsyncConnection = object


@overload
def perform(connection: SyncConnection, operation: Operation[T]) -> T: ...
@overload
def perform(connection: AsyncConnection, operation: Operation[T]) -> Awaitable[T]: ...
def perform(connection: Any, operation: Operation[T]) -> T | Awaitable[T]:
    """Run an operation in the transaction of a connection.

    On commit everything the operation wrote appears together with the caller's own
    writes; on roll-back, also to a savepoint, nothing of it remains.

    Args:
        connection: psycopg's, asyncpg's, SQLAlchemy's or Django's, sync or async.
        operation: A new operation.

    Returns:
        The operation's answer, or an awaitable of it.

    Raises:
        UnknownConnection: relevo does not know this kind of connection.
        NotInTransaction: The connection commits by itself and the operation must not.
    """
    return start(connection, operation)
