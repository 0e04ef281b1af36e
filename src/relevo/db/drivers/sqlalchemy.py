"""Run operations on SQLAlchemy 2: Core and ORM, synchronous and asynchronous.

The driver's own SQL goes through `Connection.exec_driver_sql`; an asynchronous
connection runs the same code in its greenlet. A Session gives its connection
and is not flushed: its pending objects are the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from relevo.db.drivers.errors import NotInTransaction, UnknownConnection
from relevo.db.drivers.psycopg2 import plain_rows
from relevo.db.operation import Call, Operation, Rows, drive

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

T = TypeVar("T")

_DRIVERS = {"psycopg", "psycopg_async", "psycopg2", "asyncpg"}
# A caller's options for its own reading would turn an INSERT into a server-side
# cursor, or leave "%%" doubled.
_OPTIONS = {"stream_results": False, "yield_per": None, "no_parameters": False}


def run(connection: Connection, operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""
    driver = connection.dialect.driver
    if driver not in _DRIVERS:
        raise UnknownConnection(given=f"SQLAlchemy's {driver} connection")

    def execute(call: Call) -> Rows:
        statement = call.statement
        if call.needs_transaction and _commits_by_itself(connection):
            remedy = 'isolation_level="READ COMMITTED"'
            raise NotInTransaction(statement=statement.name, remedy=remedy)
        sql: str = statement.sql
        values: dict[str, object] | tuple[object, ...] = dict(call.params)
        if driver == "asyncpg":
            sql, values = statement.numbered, tuple(statement.positional(call.params))
        result = connection.exec_driver_sql(sql, values, execution_options=_OPTIONS)
        if not result.returns_rows:
            return ()
        return plain_rows(result) if driver == "psycopg2" else [tuple(row) for row in result]

    return drive(operation, execute)


def run_in_session(session: Session | scoped_session[Any], operation: Operation[T]) -> T:
    """Run the operation inside the session's transaction, begun if it is not yet."""
    return run(session.connection(), operation)


async def run_async(connection: AsyncConnection, operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""
    return await connection.run_sync(run, operation)


async def run_async_in_session(session: AsyncSession, operation: Operation[T]) -> T:
    """Run the operation inside the session's transaction, begun if it is not yet."""
    return await session.run_sync(run_in_session, operation)


async def run_async_in_registry(registry: async_scoped_session[Any], operation: Operation[T]) -> T:
    """Run the operation in the session that belongs to the current scope."""
    return await run_async_in_session(registry(), operation)


def _commits_by_itself(connection: Connection) -> bool:
    # The driver is asked: "begin" on an AUTOCOMMIT connection is only a name.
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))
