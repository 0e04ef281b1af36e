"""Kernel locks on files: who lives, without process ids.

A flock belongs to an open file, so it ends when the last process that has the
file open ends, however it ended: no process id is ever asked, and none that
was reused or is a zombie can lie. A fork shares the open file; what the child
inherited is closed in it at once, so a child holds no lock of its parent.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self
from weakref import WeakSet

if sys.platform != "win32":
    import fcntl

SUPPORTED: bool = sys.platform != "win32"
_PAUSE = 0.02


class Deadline:
    """A bound on waiting, in seconds from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Ask again and again; answer False when time ran out first."""
        while not condition():
            if time.monotonic() >= self._end:
                return False
            time.sleep(_PAUSE)
        return True


class FileLock:
    """One open file that can hold one lock, shared or exclusive.

    The lock lives until `close`, or until every process that inherited
    the file has ended.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self.fd = os.open(path, flags, 0o600)
        _open_locks.add(self)

    def try_exclusive(self) -> bool:
        """Take the lock alone, or answer False."""
        return self._try(fcntl.LOCK_EX)

    def try_shared(self) -> bool:
        """Take the lock together with others, or answer False."""
        return self._try(fcntl.LOCK_SH)

    def _try(self, how: int) -> bool:
        try:
            fcntl.flock(self.fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Give the lock up for every process that shares the open file, and close it."""
        if self.fd >= 0:
            fcntl.flock(self.fd, fcntl.LOCK_UN)
            self.close()

    def close(self) -> None:
        """Close the file; a process that inherited it keeps the lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_open_locks: WeakSet[FileLock] = WeakSet()


def _close_inherited() -> None:
    for lock in list(_open_locks):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
