"""A connection of the engine's own: opened when needed, dropped when it is in doubt."""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Generator
from typing import Any, Final, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from relevo.db.drivers import run_async
from relevo.db.dsn import start_options
from relevo.db.operation import Operation
from relevo.db.pooler import fit_async

T = TypeVar("T")

# A dead peer is noticed within seconds, not within the hours of TCP's own defaults.
_PATIENCE: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}

# The same for the server: a session whose client is behind a pulled plug would hold its locks
# until the system's own keep-alive finds out, which takes hours. A Unix socket ignores them.
_PATIENCE_OF_SERVER: Final = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
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
    """Add time-outs by which both ends notice a dead peer, where the connection string has none.

    Of several hosts the one is taken that may be written to.
    """
    given = conninfo_to_dict(dsn)
    if "," in f"{given.get('host', '')}{given.get('hostaddr', '')}":
        given.setdefault("target_session_attrs", "read-write")
    # What stands later in the options is what holds.
    options = [*start_options(_PATIENCE_OF_SERVER), str(given.get("options") or "")]
    return make_conninfo("", **{**_PATIENCE, **given, "options": " ".join(options).strip()})


ANSWERS_WITHIN: Final = 60.0
"""After so many seconds without an answer a connection counts as lost, where nobody says less."""


def cut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End a connection under whoever waits for its answer, who is told that it was lost.

    What the server made of the statement stays unknown.
    """
    with contextlib.suppress(OSError, psycopg.Error), _same_socket(connection.fileno()) as end:
        end.shutdown(socket.SHUT_RDWR)


def _same_socket(number: int) -> socket.socket:
    return socket.socket(fileno=os.dup(number))


@contextlib.contextmanager
def answering(connection: psycopg.Connection[Any], within: float) -> Generator[None]:
    """Cut a connection whose answers do not come within so many seconds.

    TCP notices a peer that is gone. It does not notice what acknowledges every byte and
    brings none of them on, as a proxy does that has lost its own way to the server.
    """
    timer = threading.Timer(within, cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # It may be at it: afterwards the number may be that of another file.
        timer.join()


@contextlib.contextmanager
def answering_here(connection: psycopg.AsyncConnection[Any], within: float) -> Generator[None]:
    """The same for a connection of the running loop."""
    timer = asyncio.get_running_loop().call_later(within, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


class EngineConnection:
    """One autocommit connection that is opened on first use and re-opened after a failure.

    It belongs to one loop; two calls never overlap.

    Args:
        dsn: Where to connect, role and settings included.
        within: After how many seconds an operation counts as lost, connection and all.
    """

    def __init__(self, dsn: str, within: float = ANSWERS_WITHIN) -> None:
        self._dsn = with_patience(dsn)
        self._within = within
        self._connection: psycopg.AsyncConnection | None = None

    async def open(self) -> psycopg.AsyncConnection:
        """Answer the open connection, connecting if there is none.

        Raises:
            psycopg.OperationalError: The server cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            connection = await psycopg.AsyncConnection.connect(self._dsn, autocommit=True)
            try:
                with answering_here(connection, self._within):
                    await fit_async(connection)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def run(self, operation: Operation[T], *, in_transaction: bool = False) -> T:
        """Run an operation, each statement by itself or all in one transaction.

        Raises:
            psycopg.Error: What the server said; a connection in doubt has been dropped.
        """
        connection = await self.open()
        try:
            with answering_here(connection, self._within):
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
