"""The server that everybody is measured on, a new database for each, and what the server counts."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlencode

import psycopg
from harness.processes import cpu_of, family_of, reaped_cpu_of
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from relevo import Embedded

SETTINGS: Final = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "max_connections": "200",
}
"""Durable, as installed: fsync and synchronous_commit stay on."""

_LEAVING: Final = 10.0


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server has counted so far.

    Attributes:
        wal: Bytes of WAL, of all databases.
        commits: Transactions of the database at hand.
        cpu: Seconds that the server's processes computed; None where the server is elsewhere.
    """

    wal: int
    commits: int
    cpu: float | None


class Server:
    """A running PostgreSQL.

    Args:
        dsn: Somebody who may create databases.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._admin: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(dsn, autocommit=True)
        self._postmaster = _find_postmaster(self._admin.info.backend_pid)

    @property
    def about(self) -> str:
        """Which release it is."""
        return f"PostgreSQL {self._value('SHOW server_version')}"

    @property
    def is_here(self) -> bool:
        """Whether its processes can be seen from here."""
        return self._postmaster is not None

    def create(self, name: str) -> str:
        """Make an empty database; answer its connection string."""
        self.drop(name)
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        # Not every peer's driver reads libpq's own form, but all read a URL.
        parts = {**conninfo_to_dict(self._dsn), "dbname": name}
        return f"postgresql://?{urlencode(parts)}"

    def drop(self, name: str) -> None:
        """Remove a database, whoever still uses it."""
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._admin.execute(drop.format(sql.Identifier(name)))

    def settle(self) -> None:
        """Write everything down, so that what is measured next does not pay for what was before."""
        try:
            self._admin.execute("CHECKPOINT")
        except psycopg.errors.InsufficientPrivilege:
            return

    def users(self, name: str) -> int:
        """Answer how many sessions use a database."""
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = %s AND backend_type = 'client backend'"
        )
        users: int = self._value(query, name)
        return users

    def wait_for_users(self, name: str, most: int) -> None:
        """Wait until at most so many use a database: who leaves hands in what it counted."""
        until = time.monotonic() + _LEAVING
        while self.users(name) > most and time.monotonic() < until:
            time.sleep(0.02)

    def count(self, name: str) -> Counters:
        """Answer what has been counted until now."""
        wal = self._value("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        query = "SELECT xact_commit FROM pg_stat_database WHERE datname = %s"
        return Counters(wal, self._value(query, name), self.cpu())

    def cpu(self) -> float | None:
        """Answer the seconds that the server's processes have computed so far."""
        if self._postmaster is None:
            return None
        return reaped_cpu_of(self._postmaster) + cpu_of(family_of(self._postmaster))

    def close(self) -> None:
        """Leave it."""
        self._admin.close()

    def _value(self, query: str, *params: object) -> Any:
        row = self._admin.execute(query.encode(), params or None).fetchone()
        assert row is not None
        return row[0]


@contextmanager
def open_server(dsn: str | None) -> Generator[Server, None, None]:
    """Use the server of a connection string, or run one for the block.

    Args:
        dsn: A superuser's, or of somebody who may create databases; None runs an embedded one.
    """
    if dsn is not None:
        server = Server(dsn)
        try:
            yield server
        finally:
            server.close()
        return
    with TemporaryDirectory(prefix="relevo-bench-") as folder:
        # As root the server runs as somebody else, who has to get there.
        Path(folder).chmod(0o755)
        with Embedded(Path(folder) / "pg", settings=SETTINGS) as embedded:
            server = Server(embedded.dsn())
            try:
                yield server
            finally:
                server.close()


def _find_postmaster(backend: int) -> int | None:
    """Answer the parent of our own backend, if it runs on this machine."""
    try:
        words = Path(f"/proc/{backend}/cmdline").read_bytes()
        fields = Path(f"/proc/{backend}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except OSError:
        return None
    # Another machine's process id may belong to anybody here.
    return int(fields[1]) if words.startswith(b"postgres:") else None
