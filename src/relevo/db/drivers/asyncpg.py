"""Run operations on asyncpg, on a plain connection or one lent by a pool.

asyncpg's UUIDs stay as they come: they are instances of uuid.UUID, equal to it
and with the same hash. Codecs that the caller set are the connection's and
apply here too; JSON is out of their reach because operations carry it as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from relevo.db.drivers.errors import NotInTransaction
from relevo.db.operation import Call, Operation, Rows, drive_async

if TYPE_CHECKING:
    from asyncpg import Connection
    from asyncpg.pool import PoolConnectionProxy

T = TypeVar("T")


async def run_async(connection: Connection | PoolConnectionProxy, operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""

    async def execute(call: Call) -> Rows:
        statement = call.statement
        if call.needs_transaction and not connection.is_in_transaction():
            remedy = "async with connection.transaction():"
            raise NotInTransaction(statement=statement.name, remedy=remedy)
        values = statement.positional(call.params)
        return [tuple(record) for record in await connection.fetch(statement.numbered, *values)]

    return await drive_async(operation, execute)
