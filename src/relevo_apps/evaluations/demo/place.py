"""Where a demonstration takes place: a database of its own, gone afterwards unless kept.

Without a connection string it is an embedded server in a temporary directory; with one,
a new database beside the others on that server. Nothing that was there is touched.
"""

import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from relevo import Embedded, RelevoError, migrate
from relevo.cli import Database, Shell
from relevo_apps.evaluations.demo.leftover import end

_PREFIX: Final = "relevo-demo-"
_WORKER: Final = "worker.pid"
_SERVER: Final = "postgresql"
"""The folder's name in RELEVO_HOME, so that every command finds a kept server."""


class NoDemoHere(RelevoError):
    """What is to be removed is not what a demonstration has left."""

    template = (
        "%(folder)s is no folder of a demonstration; name the one that `relevo demo --keep` printed"
    )


@dataclass(slots=True)
class Place:
    """Where a demonstration takes place.

    Attributes:
        database: Its database.
        folder: Where its server, its log and the worker's log are.
        is_kept: Whether it stays when the block ends.
        drop: The command that removes it, for whoever keeps it.
    """

    database: Database
    folder: Path
    drop: str
    is_kept: bool = False

    @property
    def worker_log(self) -> Path:
        """Where the worker's lines go."""
        return self.folder / "worker.log"

    @property
    def worker_pid(self) -> Path:
        """Which process the worker is."""
        return self.folder / _WORKER


@contextmanager
def open_place(shell: Shell) -> Generator[Place, None, None]:
    """Make the place, migrated; remove it at the end unless `is_kept` was set.

    Args:
        shell: The run; a connection string that it was given names the server.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    # As root the server runs as somebody else, who has to get there.
    folder.chmod(0o755)
    place: Place | None = None
    try:
        with _beside(shell, folder) if shell.is_database_given else _embedded(folder) as place:
            migrate(place.database.dsn, shell.lines())
            yield place
    finally:
        if place is None or not place.is_kept:
            shutil.rmtree(folder, ignore_errors=True)


def called() -> str:
    """Answer how this command was called, ready to be pasted."""
    name = sys.argv[0]
    if Path(name).name != "relevo" or shutil.which("relevo") == name:
        return "relevo"
    return shlex.quote(name)


def remove(folder: Path) -> None:
    """Stop the server of a kept demonstration and remove everything of it.

    Raises:
        NoDemoHere: The folder is something else; it is left as it is.
    """
    server = folder / _SERVER
    if not folder.name.startswith(_PREFIX) or not server.is_dir():
        raise NoDemoHere(folder=folder)
    # A worker may still be there if the demonstration was killed.
    end(folder / _WORKER)
    Embedded(server).start().stop()
    shutil.rmtree(folder)


@contextmanager
def _embedded(folder: Path) -> Generator[Place, None, None]:
    server = Embedded(folder / _SERVER)
    place: Place | None = None
    try:
        server.start()
        drop = f"{called()} demo --remove {shlex.quote(str(folder))}"
        place = Place(Database(server.dsn(), None, server), folder, drop)
        yield place
    finally:
        # A server that nobody stops goes on: that is what keeping means.
        if place is None or not place.is_kept:
            server.stop()


@contextmanager
def _beside(shell: Shell, folder: Path) -> Generator[Place, None, None]:
    name = f"relevo_demo_{secrets.token_hex(4)}"
    with shell.database() as found:
        with found.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        drop = f'DROP DATABASE "{name}"'
        database = replace(found, dsn=make_conninfo(found.dsn, dbname=name), listen_dsn=None)
        place = Place(database, folder, drop)
        try:
            yield place
        finally:
            if not place.is_kept:
                with psycopg.connect(found.dsn, autocommit=True) as connection:
                    statement = sql.SQL("DROP DATABASE {} WITH (FORCE)")
                    connection.execute(statement.format(sql.Identifier(name)))
