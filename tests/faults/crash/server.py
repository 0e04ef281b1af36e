"""A server of the enumeration's own: clones, kills, an immediate stop, and its log."""

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from faults.crash.names import LINES, name_of
from faults.crash.points import Point, role_of
from relevo.db.embedded import Embedded
from relevo.db.embedded.launch import is_gone
from relevo.db.embedded.postmaster import read_address
from relevo.db.migrate import migrate

BOUND = 30.0
ROOM = 2**30
PREFIX = "@%d|%a@ "

SETTINGS = {
    "autovacuum": "off",
    "max_connections": "50",
    "shared_buffers": "128MB",
    "log_line_prefix": PREFIX,
    "log_min_messages": "log",
    "log_checkpoints": "off",
}
FAST = {"fsync": "off", "full_page_writes": "off"}

_ENTRY = re.compile(r"^@", re.MULTILINE)
_TOLD = re.compile(
    r"(?P<database>[^|]*)\|(?P<program>[^@]*)@ LOG:  (?:statement|execute [^:]*): (?P<text>.*)",
    re.DOTALL,
)


class Server:
    """A running server.

    Args:
        embedded: The server, started.
    """

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded
        self._numbers = count(1)
        self._admin = self._connect()

    def _connect(self) -> psycopg.Connection:
        return psycopg.Connection.connect(self._embedded.dsn(), autocommit=True)

    def create(self, name: str) -> str:
        """Make an empty database; answer its DSN."""
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    @contextmanager
    def clone(self, template: str, *, is_logged: bool = False) -> Iterator[tuple[str, str]]:
        """Lend a copy of a database: its name and its DSN; the server logs what it is told."""
        name = f"crash_{next(self._numbers)}"
        # A copy by the log takes a sequence's page as it is in memory, with numbers that it may
        # give out unlogged; after a stop it would give them out again. Copied files begin anew.
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._admin.execute(copy.format(sql.Identifier(name), sql.Identifier(template)))
        if is_logged:
            log = sql.SQL("ALTER DATABASE {} SET log_statement = 'all'")
            self._admin.execute(log.format(sql.Identifier(name)))
        yield name, self.dsn(name)
        drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
        self._admin.execute(drop.format(sql.Identifier(name)))

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """Lend a database that was migrated without any fault."""
        name = "crash_migrated"
        migrate(self.create(name), LINES)
        yield self.dsn(name)
        self._admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))

    def forget_roles(self) -> None:
        """Drop the engine's roles; no database may use them."""
        self._admin.execute("DROP ROLE IF EXISTS relevo_worker, relevo_web")

    def dsn(self, database: str) -> str:
        """Answer the address of a database."""
        return make_conninfo(self._embedded.dsn(), dbname=database)

    def terminate(self, pid: int) -> None:
        """Kill a backend, as an operator does."""
        self._admin.execute("SELECT pg_terminate_backend(%s)", [pid])

    def stop_at_once(self) -> None:
        """What `pg_ctl stop -m immediate` does."""
        address = read_address(self._embedded._layout)
        if address is not None:
            with suppress(ProcessLookupError):
                os.kill(address.pid, signal.SIGQUIT)

    def start_again(self) -> None:
        """Wait until nothing of it runs, and start it: it recovers from its log."""
        end = time.monotonic() + BOUND
        while not is_gone(self._embedded._layout):
            assert time.monotonic() < end, "the server did not stop"
            time.sleep(0.005)
        self._admin.close()
        self._embedded.start()
        self._admin = self._connect()

    def await_gone(self, database: str, program: str) -> None:
        """Wait until no backend works for a process that is gone."""
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = %s AND application_name LIKE '%%' || %s"
        )
        end = time.monotonic() + BOUND
        while self._admin.execute(query, [database, program]).fetchone() != (0,):
            assert time.monotonic() < end, f"backends of {program} did not end"
            time.sleep(0.002)

    def log_size(self) -> int:
        """How much the server has logged."""
        return self._embedded.log.stat().st_size

    def logged(self, database: str, slices: Sequence[tuple[int, int]]) -> list[Point]:
        """Answer what the server was told in a database, in order.

        Args:
            database: Which one; it has to be a logged clone.
            slices: Which parts of the log are meant, by the sizes it had.
        """
        log = self._embedded.log.read_bytes()
        text = b"".join(log[begin:end] for begin, end in slices).decode()
        return [point for entry in _ENTRY.split(text) for point in _read(entry, database)]

    def close(self) -> None:
        """Disconnect; whoever started the server stops it."""
        self._admin.close()


def _read(entry: str, database: str) -> list[Point]:
    told = _TOLD.match(entry)
    if told is None or told["database"] != database:
        return []
    return [Point(role_of(told["program"]), name_of(told["text"].replace("\n\t", "\n").strip()))]


@contextmanager
def a_server(*, is_durable: bool) -> Iterator[Server]:
    """Run a server; a durable one keeps what it acknowledged through an immediate stop."""
    settings = SETTINGS if is_durable else {**SETTINGS, **FAST}
    with tempfile.TemporaryDirectory(prefix="relevo-crash-", dir=_memory()) as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=settings) as embedded:
            server = Server(embedded)
            try:
                yield server
            finally:
                server.close()


def _memory() -> str | None:
    """No stop here loses what the machine remembers, so memory serves where there is room."""
    place = Path("/dev/shm")  # noqa: S108 -- a directory of our own is made in it
    has_room = os.access(place, os.W_OK) and shutil.disk_usage(place).free > ROOM
    return str(place) if has_room else None
