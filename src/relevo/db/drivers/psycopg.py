"""Run operations on psycopg 3, the engine's own driver.

One cursor serves the whole operation. It is made from the class, not by the
connection, so that a caller's row and cursor factories neither change the rows
nor are changed. Parameters go by number, which psycopg takes as they are.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper

from relevo.db.drivers.errors import NotInTransaction
from relevo.db.operation import Call, Operation, Row, Rows, drive, drive_async

T = TypeVar("T")

_ACTIVE = TransactionStatus.ACTIVE
_IDLE = TransactionStatus.IDLE
_TUPLES = ExecStatus.TUPLES_OK
_REMEDY = "with connection.transaction():"


def run(connection: Connection[Any], operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""

    def execute(call: Call) -> Rows:
        if call.needs_transaction and connection.autocommit:
            if connection.pgconn.transaction_status == _ACTIVE:
                _arrive(connection)
            if connection.pgconn.transaction_status == _IDLE:
                raise NotInTransaction(statement=call.statement.name, remedy=_REMEDY)
        values = call.statement.positional(call.params)
        _compact(cursor, values)
        cursor.execute(call.statement.sendable, values)  # pyright: ignore[reportArgumentType] - read from our own files
        if cursor.pgresult is None:
            _arrive(connection)
        return cursor.fetchall() if _has_rows(cursor.pgresult) else ()

    with RawCursor(connection, row_factory=tuple_row) as cursor:
        return drive(operation, execute)


async def run_async(connection: AsyncConnection[Any], operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""

    async def execute(call: Call) -> Rows:
        if call.needs_transaction and connection.autocommit:
            if connection.pgconn.transaction_status == _ACTIVE:
                await _arrive_async(connection)
            if connection.pgconn.transaction_status == _IDLE:
                raise NotInTransaction(statement=call.statement.name, remedy="async " + _REMEDY)
        values = call.statement.positional(call.params)
        _compact(cursor, values)
        await cursor.execute(call.statement.sendable, values)  # pyright: ignore[reportArgumentType] - read from our own files
        if cursor.pgresult is None:
            await _arrive_async(connection)
        return await cursor.fetchall() if _has_rows(cursor.pgresult) else ()

    async with AsyncRawCursor(connection, row_factory=tuple_row) as cursor:
        return await drive_async(operation, execute)


def _compact(cursor: RawCursor[Row] | AsyncRawCursor[Row], values: Sequence[object]) -> None:
    # Lists travel in binary form: quoting each element as text takes ten times as long.
    if list in map(type, values):
        cursor.adapters.register_dumper(list, ListBinaryDumper)


def _has_rows(result: PGresult | None) -> bool:
    # Not by the cursor's `description`, which makes an object for each column.
    return result is not None and result.status == _TUPLES


def _arrive(connection: Connection[Any]) -> None:
    # In the caller's pipeline what was sent is still under way; an inner one waits for it.
    with connection.pipeline():
        pass


async def _arrive_async(connection: AsyncConnection[Any]) -> None:
    async with connection.pipeline():
        pass
