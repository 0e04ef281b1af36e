"""A connection of the engine's own: opened when needed, dropped when it is in doubt."""

from typing import Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from relevo.db.drivers import run_async
from relevo.db.operation import Operation

T = TypeVar("T")

# A dead peer is noticed within seconds, not within the hours of TCP's own defaults.
_PATIENCE: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

# A server that turned read-only, or a plan that outlived its table's shape: neither
# heals on the same session.
_STALE_SESSION: Final = frozenset({"25006", "0A000"})


def is_transient(error: psycopg.Error) -> bool:
    """Whether the same statement may well succeed later: nobody did anything wrong."""
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return True
    return error.sqlstate in _STALE_SESSION


def with_patience(dsn: str) -> str:
    """Add time-outs that notice a dead peer, where the connection string has none."""
    given = conninfo_to_dict(dsn)
    return make_conninfo("", **{**_PATIENCE, **given})


class EngineConnection:
    """One autocommit connection that is opened on first use and re-opened after a failure.

    It belongs to one loop; two calls never overlap.

    Args:
        dsn: Where to connect, role and settings included.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = with_patience(dsn)
        self._connection: psycopg.AsyncConnection | None = None

    async def open(self) -> psycopg.AsyncConnection:
        """Answer the open connection, connecting if there is none.

        Raises:
            psycopg.OperationalError: The server cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
        return self._connection

    async def run(self, operation: Operation[T], *, in_transaction: bool = False) -> T:
        """Run an operation, each statement by itself or all in one transaction.

        Raises:
            psycopg.Error: What the server said; a connection in doubt has been dropped.
        """
        connection = await self.open()
        try:
            if not in_transaction:
                return await run_async(connection, operation)
            async with connection.transaction():
                return await run_async(connection, operation)
        except psycopg.Error as error:
            if connection.broken or error.sqlstate is None or error.sqlstate in _STALE_SESSION:
                await self.close()
            raise
        except BaseException:
            # Cancelled in mid-statement: what the server did is unknown.
            await self.close()
            raise

    async def close(self) -> None:
        """Drop the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
