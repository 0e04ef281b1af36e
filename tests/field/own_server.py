"""A PostgreSQL of a test's own, to be ended, started again, or turned into a standby."""

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from relevo.db.embedded import Embedded
from relevo.db.embedded.launch import is_gone
from relevo.db.embedded.postmaster import Address, read_address
from relevo.db.migrate import ENGINE, migrate
from workers import wait_until

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "log_min_messages": "fatal",
}
STARTING_UP = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


class OwnServer:
    """The server; its database `postgres` has the engine's schema."""

    def __init__(self, embedded: Embedded) -> None:
        self._embedded = embedded
        self.dsn = embedded.dsn()
        migrate(self.dsn, [ENGINE])

    @property
    def address(self) -> Address:
        address = read_address(self._embedded._layout)
        assert address is not None, "there is no server"
        return address

    def stop_at_once(self) -> Address:
        """What `pg_ctl stop -m immediate` does; answers where it listened."""
        address = self.address
        os.kill(address.pid, signal.SIGQUIT)
        wait_until(lambda: is_gone(self._embedded._layout), 60, "the server's end")
        return address

    def start(self) -> None:
        self._embedded.start()

    def start_as_standby(self) -> None:
        """Start it in recovery: it answers questions and takes no writes."""
        (self._embedded._layout.data / "standby.signal").touch()
        self.start()


@contextmanager
def an_own_server(*, is_durable: bool = False) -> Iterator[OwnServer]:
    settings = {**SETTINGS, **({"fsync": "on"} if is_durable else {})}
    with tempfile.TemporaryDirectory(prefix="relevo-field-") as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=settings) as embedded:
            yield OwnServer(embedded)


@contextmanager
def a_mute_server(address: Address) -> Iterator[None]:
    """Something listens where a server listened, and answers nobody."""
    path = address.folder / f".s.PGSQL.{address.port}"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen(64)
        yield
    path.unlink(missing_ok=True)


class Doorman:
    """Stands where a server listened, counts who knocks, and lets nobody in.

    At first it hangs up, as nothing does that is down; `is_starting` makes it answer with
    57P03, as a server does that recovers.
    """

    def __init__(self, address: Address) -> None:
        self._path = address.folder / f".s.PGSQL.{address.port}"
        self.knocks: list[float] = []
        self.is_starting = False
        self._socket = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._path.unlink(missing_ok=True)
        self._socket.bind(str(self._path))
        self._socket.listen(64)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(20)
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                knock, _ = self._socket.accept()
            except OSError:
                return
            self.knocks.append(time.monotonic())
            with knock, suppress(OSError):
                if self.is_starting:
                    knock.settimeout(5)
                    knock.recv(1024)
                    size = (len(STARTING_UP) + 4).to_bytes(4, "big")
                    knock.sendall(b"E" + size + STARTING_UP)
