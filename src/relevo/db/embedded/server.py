"""One embedded PostgreSQL, shared by every process that asks for its directory.

Three locks carry all of it. The gate lets one process at a time start or stop.
Every user holds the clients' lock shared, and who can take it alone was the
last. The server's processes hold the server's lock from their first moment to
their last. All three end with the processes that hold them, also with kill -9.
"""

import errno
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from relevo.db.embedded import binaries, cluster, postmaster
from relevo.db.embedded.account import Account
from relevo.db.embedded.dsn import build_dsn
from relevo.db.embedded.errors import (
    NotReady,
    NotStarted,
    ReservedSetting,
    StartFailed,
    UnsupportedPlatform,
)
from relevo.db.embedded.locks import SUPPORTED, Deadline, FileLock
from relevo.db.embedded.paths import Layout, claim

_RESERVED = {"config_file", "data_directory", "hba_file", "unix_socket_directories"}


class Embedded:
    """A real PostgreSQL in one directory.

    A process uses the server from `start` to `stop`; the last user's `stop` stops it. A process
    that ends without `stop`, even by kill -9, is no user any more, and a server without users
    goes on until the next user stops it. A forked child is not a user: it may connect, its
    `stop` does nothing, and its own `start` makes it one.

    Args:
        root: The directory: new, empty, or one that an embedded server made before.
        settings: PostgreSQL settings by name, for the process that starts the server; who joins a
            running one takes it as it is.
        run_as: The account of the server's processes when this process is root.
    """

    def __init__(
        self, root: Path, settings: Mapping[str, str] | None = None, run_as: str = "nobody"
    ) -> None:
        if not SUPPORTED:
            raise UnsupportedPlatform(platform=sys.platform)
        self._layout = Layout(Path(root).expanduser().resolve())
        self._settings = {_plain(name): value for name, value in (settings or {}).items()}
        for name in sorted(_RESERVED & self._settings.keys()):
            raise ReservedSetting(setting=name)
        self._account = Account.choose(run_as)
        self._client: FileLock | None = None
        self._owner = 0
        self._address: postmaster.Address | None = None

    @property
    def root(self) -> Path:
        """The directory that holds everything of this server."""
        return self._layout.root

    @property
    def log(self) -> Path:
        """The file that the server writes what it has to say to."""
        return self._layout.log

    def start(self, timeout: float = 300) -> Self:
        """Start the server, or join it when it runs, and wait until it answers.

        Args:
            timeout: Seconds to wait; recovery after a crash can take long.

        Raises:
            EmbeddedError: What, why and what to do next; a refused directory is unchanged.
        """
        deadline = Deadline(timeout)
        claim(self._layout, self._account)
        with self._full_disk_said(), self._gate(deadline):
            client = self._client if self._is_user() else None
            if client is None:
                client = FileLock(self._layout.clients)
                client.try_shared()  # taken alone only behind the gate, where we are
            try:
                self._address = self._run(deadline)
            except BaseException:
                self._client = None
                client.release()
                raise
            self._client, self._owner = client, os.getpid()
        return self

    def stop(self, timeout: float = 60) -> bool:
        """Stop using the server, and stop it when nobody else uses it.

        Args:
            timeout: Seconds to wait for the shutdown.

        Returns:
            Whether the server is down; False when others use it, and in a process that does not.

        Raises:
            NotReady: It did not shut down in time.
        """
        if not self._is_user() or self._client is None:
            return False
        self._client.release()
        self._client = self._address = None
        deadline = Deadline(timeout)
        with self._gate(deadline), FileLock(self._layout.clients) as users:
            if not users.try_exclusive():
                return False
            if (address := postmaster.read_address(self._layout)) and not self._is_gone():
                postmaster.ask_to_stop(address, self._account)
            if not deadline.wait_for(self._is_gone):
                raise self._not_ready("gone", deadline)
            return True

    def dsn(
        self,
        database: str = "postgres",
        *,
        role: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> str:
        """The address of a database as a URI for libpq, psycopg, asyncpg and pg_dump.

        Args:
            database: The database's name.
            role: A role that the session takes at once, in place of the superuser.
            options: Settings that the session begins with.
        """
        if self._address is None:
            raise NotStarted(root=self.root)
        return build_dsn(self._address, database, role, options)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self, deadline: Deadline) -> postmaster.Address:
        """The address of a server that answers, started here if none runs."""
        with FileLock(self._layout.server) as server:
            # Held by a server that is up, coming up or going down, or by an orphaned initdb.
            if not deadline.wait_for(lambda: server.try_exclusive() or self._answers()):
                raise self._not_ready("ready", deadline)
            stale = postmaster.read_address(self._layout)
            if stale and not server.try_exclusive():
                return stale
            found = binaries.prepare(self._layout, self._account)
            cluster.check_major(self._layout, found)
            cluster.create(self._layout, found, self._account, self._settings, server)
            cluster.write_access(self._layout)
            said = self.log.stat().st_size if self.log.exists() else 0
            postmaster.spawn(self._layout, found, self._account, self._settings, server)
        if not deadline.wait_for(lambda: self._answers(stale) or self._is_gone()):
            raise self._not_ready("ready", deadline)
        address = postmaster.read_address(self._layout)
        if address is None or self._is_gone():
            raise self._start_failed(said)
        return address

    def _answers(self, stale: postmaster.Address | None = None) -> bool:
        address = postmaster.read_address(self._layout)
        return address is not None and address != stale and address.answers()

    def _is_gone(self) -> bool:
        with FileLock(self._layout.server) as server:
            return server.try_exclusive()

    def _is_user(self) -> bool:
        return self._client is not None and self._owner == os.getpid()

    @contextmanager
    def _gate(self, deadline: Deadline) -> Iterator[None]:
        gate = FileLock(self._layout.gate)
        try:
            if not deadline.wait_for(gate.try_exclusive):
                raise self._not_ready("free to start or stop", deadline)
            yield
        finally:
            gate.release()

    @contextmanager
    def _full_disk_said(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise cluster.disk_full(self._layout) from error
            raise

    def _start_failed(self, said: int) -> Exception:
        with self.log.open(errors="replace") as log:
            log.seek(said)
            tail = log.read()[-2000:].strip()
        if cluster.is_full(self._layout, tail):
            return cluster.disk_full(self._layout)
        return StartFailed(root=self.root, log=self.log, tail=tail)

    def _not_ready(self, awaited: str, deadline: Deadline) -> NotReady:
        return NotReady(
            root=self.root, awaited=awaited, seconds=f"{deadline.seconds:g}", log=self.log
        )


def _plain(setting: str) -> str:
    """The one spelling of a setting's name, as PostgreSQL reads it."""
    return setting.lower().replace("-", "_")
