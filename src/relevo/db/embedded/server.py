"""One embedded PostgreSQL, shared by every process that asks for its directory.

Three locks carry all of it. The gate lets one process at a time start or stop.
Every user holds the clients' lock shared, and who can take it alone was the
last. The server's processes hold the server's lock from their first moment to
their last. All three end with the processes that hold them, also with kill -9.
"""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from relevo.db.embedded import launch
from relevo.db.embedded.account import Account
from relevo.db.embedded.dsn import build_dsn
from relevo.db.embedded.errors import NotStarted, ReservedSetting, UnsupportedPlatform
from relevo.db.embedded.locks import SUPPORTED, Deadline, FileLock
from relevo.db.embedded.paths import Layout, claim
from relevo.db.embedded.postmaster import Address

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
        self._address: Address | None = None

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
        with launch.system_errors_said(self._layout):
            claim(self._layout, self._account)
            with self._gate(deadline):
                self._use(deadline)
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
            launch.shut_down(self._layout, self._account, deadline)
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

    def _use(self, deadline: Deadline) -> None:
        client = self._client if self._is_user() else None
        client = client or FileLock(self._layout.clients)
        try:
            launch.await_that(client.try_shared, "free to join", self._layout, deadline)
            self._address = launch.join_or_start(
                self._layout, self._account, self._settings, deadline
            )
        except BaseException:
            self._client = None
            client.release()
            raise
        self._client, self._owner = client, os.getpid()

    def _is_user(self) -> bool:
        return self._client is not None and self._owner == os.getpid()

    @contextmanager
    def _gate(self, deadline: Deadline) -> Generator[None, None, None]:
        gate = FileLock(self._layout.gate)
        try:
            launch.await_that(gate.try_exclusive, "free to start or stop", self._layout, deadline)
            yield
        finally:
            gate.release()


def _plain(setting: str) -> str:
    """The one spelling of a setting's name, as PostgreSQL reads it."""
    return setting.lower().replace("-", "_")
