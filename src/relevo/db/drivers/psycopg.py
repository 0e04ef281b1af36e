"""Run operations on psycopg 3, the engine's own driver.

One cursor serves the whole operation. It is made from the class, not by the
connection, so that a caller's row and cursor factories neither change the rows
nor are changed.
"""

from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from relevo.db.drivers.errors import NotInTransaction
from relevo.db.operation import Call, Operation, Rows, drive, drive_async

T = TypeVar("T")

_ACTIVE = TransactionStatus.ACTIVE
_IDLE = TransactionStatus.IDLE
_REMEDY = "with connection.transaction():"


def run(connection: Connection[Any], operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""

    def execute(call: Call) -> Rows:
        if call.needs_transaction and connection.autocommit:
            if connection.pgconn.transaction_status == _ACTIVE:
                _arrive(connection)
            if connection.pgconn.transaction_status == _IDLE:
                raise NotInTransaction(statement=call.statement.name, remedy=_REMEDY)
        cursor.execute(call.statement.sql, call.params)  # pyright: ignore[reportArgumentType] - read from our own files
        if cursor.pgresult is None:
            _arrive(connection)
        return cursor.fetchall() if cursor.description else ()

    with Cursor(connection, row_factory=tuple_row) as cursor:
        return drive(operation, execute)


async def run_async(connection: AsyncConnection[Any], operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""

    async def execute(call: Call) -> Rows:
        if call.needs_transaction and connection.autocommit:
            if connection.pgconn.transaction_status == _ACTIVE:
                await _arrive_async(connection)
            if connection.pgconn.transaction_status == _IDLE:
                raise NotInTransaction(statement=call.statement.name, remedy="async " + _REMEDY)
        await cursor.execute(call.statement.sql, call.params)  # pyright: ignore[reportArgumentType] - read from our own files
        if cursor.pgresult is None:
            await _arrive_async(connection)
        return await cursor.fetchall() if cursor.description else ()

    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        return await drive_async(operation, execute)


def _arrive(connection: Connection[Any]) -> None:
    # In the caller's pipeline what was sent is still under way; an inner one waits for it.
    with connection.pipeline():
        pass


async def _arrive_async(connection: AsyncConnection[Any]) -> None:
    async with connection.pipeline():
        pass
