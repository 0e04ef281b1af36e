"""Make of the driver's errors sentences of ours."""

import psycopg

from relevo.cli.database import reason_of
from relevo.cli.errors import DatabaseRefused, DatabaseUnreachable, RightsMissing, SchemaMissing
from relevo.errors import RelevoError

_SCHEMA = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)

_GONE = ("08", "57P")
"""The classes of errors after which the connection is gone."""


def ours(error: BaseException, address: str) -> RelevoError | None:
    """Answer the error that says it, or None where it is not the database's."""
    if not isinstance(error, psycopg.Error):
        return None
    reason = reason_of(error)
    if isinstance(error, _SCHEMA):
        return SchemaMissing(reason=reason)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return RightsMissing(reason=reason)
    if _is_gone(error):
        return DatabaseUnreachable(dsn=address, reason=reason)
    return DatabaseRefused(reason=reason)


def _is_gone(error: psycopg.Error) -> bool:
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(_GONE)
