"""Notice a pooler between here and the server, and do without what it does not keep.

A pooler in transaction mode gives each transaction another of the server's sessions. What one
of them has prepared is unknown to the next, or is another client's of the same name, which
would run with our values. So nothing is prepared there. It is noticed by the process id that
was told when the connection began, which a pooler invents.
"""

from typing import Any, Final

import psycopg

from relevo.db.drivers import run, run_async
from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.db", "session.sql")


def read_backend() -> Operation[int]:
    """Answer the process id of the session that this statement ran in."""
    rows = yield Call(STATEMENTS["read_backend"], {})
    return int(rows[0][0])


def fit(connection: psycopg.Connection[Any]) -> None:
    """Prepare nothing on a new connection that goes through a pooler."""
    if run(connection, read_backend()) != connection.info.backend_pid:
        connection.prepare_threshold = None


async def fit_async(connection: psycopg.AsyncConnection[Any]) -> bool:
    """The same for an asynchronous one; answer whether the connection is direct."""
    is_direct = await run_async(connection, read_backend()) == connection.info.backend_pid
    if not is_direct:
        connection.prepare_threshold = None
    return is_direct


def configure(connection: psycopg.Connection[Any]) -> None:
    """Fit a connection of a pool, which wants it back outside of a transaction."""
    connection.autocommit = True
    fit(connection)
    connection.autocommit = False


async def configure_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same for an asynchronous pool."""
    await connection.set_autocommit(True)
    await fit_async(connection)
    await connection.set_autocommit(False)
