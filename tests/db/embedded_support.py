"""Places and processes for the tests of the embedded server.

As root the server runs as `nobody`, who cannot enter pytest's own directories, so a place is
made in /tmp and opened for passing through.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from relevo.db.embedded import binaries
from relevo.db.embedded.account import Account
from relevo.db.embedded.locks import Deadline, FileLock
from relevo.db.embedded.paths import Layout

IS_ROOT = os.geteuid() == 0
NOBODY = 65534
FAST = {"fsync": "off", "shared_buffers": "16MB"}

# A process that uses the server until it hears a line, and says what its stop answered.
CLIENT = """
import sys
from pathlib import Path
from relevo.db.embedded import Embedded, EmbeddedError

try:
    server = Embedded(Path(sys.argv[1]), settings={"fsync": "off"}).start(timeout=60)
except EmbeddedError as error:
    print(type(error).__name__, error, flush=True)
    sys.exit(3)
print(server.dsn(), flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""

# Everything is imported first: the user may not be able to read the environment.
AS_NOBODY = f"""
import os, pwd, shutil, socket, subprocess
import relevo.db.embedded
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
"""


class Client:
    """A process of its own that runs a script and answers line by line."""

    def __init__(
        self, root: Path, script: str = CLIENT, environment: Mapping[str, str] | None = None
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )

    def hears(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def goes_on(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def leaves(self) -> str:
        """Let it stop; answer what `stop` said."""
        self.goes_on()
        said = self.hears()
        assert self.process.wait(30) == 0
        return said

    def is_killed(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def close(self) -> None:
        if self.process.poll() is None:
            self.is_killed()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            pipe.close()


@contextmanager
def clients(root: Path, count: int = 1, script: str = CLIENT) -> Iterator[list[Client]]:
    """Start processes on one root; end them at the end."""
    started = [Client(root, script) for _ in range(count)]
    try:
        yield started
    finally:
        for client in started:
            client.close()


def postmaster_of(root: Path) -> int:
    return int((root / "data" / "postmaster.pid").read_text().split()[0])


def is_gone(root: Path) -> bool:
    """Whether no process of the server lives."""
    with FileLock(root / "server.lock") as lock:
        return lock.try_exclusive()


def kill_server(root: Path, how: int = signal.SIGKILL) -> None:
    """Kill the first process; the others follow it."""
    os.kill(postmaster_of(root), how)
    assert Deadline(30).wait_for(lambda: is_gone(root))


def account() -> Account:
    return Account.choose("nobody")


def programs_for_all(place: Path) -> Path:
    """The folder of PostgreSQL's programs, copied if the server's account cannot reach it."""
    return binaries.prepare(Layout(place / "programs"), account()).bin


@contextmanager
def a_place() -> Iterator[Path]:
    """A new directory that the server's account can pass; servers left in it are ended."""
    place = Path(tempfile.mkdtemp(prefix="relevo-test-", dir="/tmp"))
    if IS_ROOT:
        place.chmod(0o711)
    try:
        yield place
        for found in place.rglob("postmaster.pid"):
            root = found.parent.parent
            if (root / "server.lock").exists() and not is_gone(root):
                kill_server(root, signal.SIGQUIT)
    finally:
        shutil.rmtree(place)
