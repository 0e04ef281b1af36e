"""The server's first process: spawn it, hear whether it answers, ask it to stop.

It belongs to no process of ours: it lives in its own session, so that Ctrl-C
does not reach it, and is adopted by init, so that nobody has to reap it. It
and all its children hold the server's lock by inheritance.
"""

import hashlib
import os
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relevo.db.embedded.account import Account
from relevo.db.embedded.binaries import Binaries
from relevo.db.embedded.cluster import SUPERUSER
from relevo.db.embedded.locks import FileLock
from relevo.db.embedded.paths import Layout, make_private

_LONGEST_ADDRESS = 103  # bytes: sun_path less its end, 103 on macOS and 107 on Linux
_LARGEST_LOG = 10 * 1024 * 1024
_PROTOCOL = 3 << 16
_STARTING_UP = b"C57P03\0"
_READY_FOR_QUERY = b"Z\0\0\0\x05"
_TERMINATE = b"X\0\0\0\x04"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a running server listens, as it says itself.

    Attributes:
        folder: The directory of its socket.
        port: The number in the socket's name.
        pid: The process to ask for a stop.
        started: When it started, in seconds of the epoch; tells it from one of the same pid.
    """

    folder: Path
    port: int
    pid: int
    started: int

    def answers(self) -> bool:
        """Whether a session can begin: pg_isready's question, without a process for it."""
        names = f"user\0{SUPERUSER}\0database\0{SUPERUSER}\0\0".encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(str(self.folder / f".s.PGSQL.{self.port}"))
                connection.sendall(struct.pack("!II", len(names) + 8, _PROTOCOL) + names)
                reply = b""
                while _READY_FOR_QUERY not in reply and not reply.startswith(b"E"):
                    if not (part := connection.recv(4096)):
                        return False
                    reply += part
                connection.sendall(_TERMINATE)
            except OSError:
                return False
        # Another refusal, such as too many connections, comes from a server that is up.
        return _STARTING_UP not in reply


def read_address(layout: Layout) -> Address | None:
    """What the server wrote about itself, or None before it did."""
    try:
        lines = (layout.data / "postmaster.pid").read_text(errors="surrogateescape").split("\n")
        return Address(Path(lines[4]), port=int(lines[3]), pid=int(lines[0]), started=int(lines[2]))
    except (FileNotFoundError, IndexError, ValueError):
        return None


def spawn(
    layout: Layout,
    binaries: Binaries,
    account: Account,
    settings: Mapping[str, str],
    server: FileLock,
) -> None:
    """Let the server begin; it may end at once, its lock and its log say so.

    Args:
        layout: Where.
        binaries: Whose postgres.
        account: Who it runs as.
        settings: What it is told on its command line, so that nothing else overrides it.
        server: The lock that it inherits.
    """
    folder = _socket_folder(layout, settings.get("port", "5432"))
    make_private(folder, account)
    given = {
        "listen_addresses": "",
        "port": "5432",
        **settings,
        "unix_socket_directories": '"' + str(folder).replace('"', '""') + '"',
        "hba_file": str(layout.hba),
    }
    options = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
    if layout.log.exists() and layout.log.stat().st_size > _LARGEST_LOG:
        layout.log.replace(layout.log.with_suffix(".log.1"))
    log = os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        account.run(
            # The shell ends at once and leaves the server to init.
            [
                "/bin/sh",
                "-c",
                '"$@" &',
                "sh",
                binaries.bin / "postgres",
                "-D",
                layout.data,
                *options,
            ],
            keep=[server.fd],
            log=log,
            variables=_forgive_stale_pid(layout),
        )
    finally:
        os.close(log)


def _forgive_stale_pid(layout: Layout) -> dict[str, str]:
    """Let the server start although the pid of a killed one lives again in another process.

    The lock already proved that no server of ours lives, so the number is stale. PostgreSQL
    passes over the number in this variable, which pg_ctl uses for the same end, and still
    makes sure by the shared memory that no server of somebody else has the data open.
    """
    stale = read_address(layout)
    return {"PG_GRANDPARENT_PID": str(stale.pid)} if stale else {}


def _socket_folder(layout: Layout, port: str) -> Path:
    """The directory for the socket: in the root, unless its name does not fit an address."""
    name = os.fsencode(layout.sockets / f".s.PGSQL.{port}")
    # Clients read a comma as a list of hosts.
    if len(name) <= _LONGEST_ADDRESS and not re.search(rb"[,\x00-\x1f]", name):
        return layout.sockets
    digest = hashlib.sha256(os.fsencode(layout.root)).hexdigest()[:12]
    return Path("/tmp") / f"relevo-{os.geteuid()}-{digest}"  # noqa: S108 - made private, its owner checked


def ask_to_stop(address: Address, account: Account, *, at_once: bool = False) -> None:
    """Ask for a fast shutdown: sessions end, what they had not committed is rolled back.

    The signal is sent as the server's account, so that root cannot be led to another process.

    Args:
        address: Of the server.
        account: Who it runs as.
        at_once: Whether to ask for an immediate shutdown, after which it has to recover.
    """
    word = "-QUIT" if at_once else "-INT"
    account.run(["/bin/sh", "-c", 'kill "$1" "$2"', "sh", word, str(address.pid)])


def remove_socket_folder(layout: Layout, address: Address) -> None:
    """Leave nothing behind where the socket had to be outside the root."""
    folder = _socket_folder(layout, str(address.port))
    if folder != layout.sockets:
        with suppress(OSError):  # not empty, or gone: harmless, the next start takes it again
            folder.rmdir()
