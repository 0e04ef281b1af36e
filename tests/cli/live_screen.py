"""A command that draws on a whole terminal until a key ends it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from real_command import COMMAND, PATIENCE, Command

_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

HIDE, SHOW = b"\x1b[?1049h", b"\x1b[?1049l"
"""How a program takes the whole screen, and gives it back."""


class LiveScreen:
    """A terminal of some size, and the command on it."""

    def __init__(self, command: Command, words: tuple[str, ...], lines: int, columns: int) -> None:
        self._leader, self._follower = pty.openpty()
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._follower, termios.TIOCSWINSZ, size)
        self.modes = termios.tcgetattr(self._follower)
        self.raw = b""
        self._looked_to = 0
        kept = {name: value for name, value in command.environment.items() if name != "TERM"}
        self.process = subprocess.Popen(
            [COMMAND, *words],
            env={"TERM": "xterm-256color", **kept, **command.variables},
            stdin=self._follower,
            stdout=self._follower,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def until(self, text: str, bound: float = PATIENCE) -> str:
        """Wait until a text is drawn after the one that was waited for before.

        Answers what was drawn between the two, this one included.
        """
        end = time.monotonic() + bound
        while (place := plain(self.raw).find(text, self._looked_to)) < 0:
            if not self._read(end - time.monotonic()):
                raise AssertionError(plain(self.raw))
        begin, self._looked_to = self._looked_to, place + len(text)
        return plain(self.raw)[begin : self._looked_to]

    def type(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def wait(self) -> int:
        """Read what is still drawn until the command has ended; answer its exit code."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, plain(self.raw)
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def is_as_before(self) -> bool:
        """Whether the terminal's modes are those from before the command."""
        return termios.tcgetattr(self._follower) == self.modes

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE)
        os.close(self._leader)
        os.close(self._follower)

    def _read(self, bound: float) -> bool:
        if not select.select([self._leader], [], [], max(bound, 0))[0]:
            return False
        self.raw += os.read(self._leader, 65536)
        return True


@contextmanager
def live(
    command: Command, *words: str, lines: int = 40, columns: int = 120
) -> Iterator[LiveScreen]:
    screen = LiveScreen(command, words, lines, columns)
    try:
        yield screen
    finally:
        screen.close()


def plain(raw: bytes) -> str:
    """What was drawn, without its styles and moves."""
    return _STYLE.sub("", raw.decode(errors="replace").replace("\r\n", "\n"))
