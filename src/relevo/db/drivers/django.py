"""Run operations on Django's connection to PostgreSQL.

Statements go through Django's cursor, so its instrumentation, its errors and
its refusal of a broken atomic block are the ones the caller knows.
"""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg.types.datetime import TimestamptzLoader

from relevo.db.drivers.errors import NotInTransaction, UnknownConnection
from relevo.db.drivers.psycopg2 import plain_rows
from relevo.db.operation import Call, Operation, Rows, drive

if TYPE_CHECKING:
    from django.db.backends.postgresql.base import DatabaseWrapper
    from django.utils.connection import ConnectionProxy

T = TypeVar("T")


def run(connection: DatabaseWrapper | ConnectionProxy, operation: Operation[T]) -> T:
    """Run the operation inside whatever transaction the connection has."""
    if connection.vendor != "postgresql":
        raise UnknownConnection(given=f"Django's {connection.vendor} connection")
    is_psycopg2 = connection.Database.__name__ == "psycopg2"

    def execute(call: Call) -> Rows:
        if call.needs_transaction and connection.get_autocommit():
            remedy = "with transaction.atomic():"
            raise NotInTransaction(statement=call.statement.name, remedy=remedy)
        with connection.cursor() as cursor:
            if connection.timezone is None:
                _keep_zones(cursor.cursor, is_psycopg2=is_psycopg2)
            cursor.execute(call.statement.sql, call.params)
            rows = cursor.fetchall() if cursor.description else ()
        return plain_rows(rows) if is_psycopg2 else rows

    return drive(operation, execute)


def _keep_zones(cursor: Any, *, is_psycopg2: bool) -> None:
    # With USE_TZ off Django cuts the zone away; this cursor alone keeps it.
    if is_psycopg2:
        cursor.tzinfo_factory = timezone
    else:
        cursor.adapters.register_loader("timestamptz", TimestamptzLoader)
