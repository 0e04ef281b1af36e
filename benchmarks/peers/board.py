"""Where a worker process says what it has run, and others read it: one shared file of doubles.

The monotonic clock is the system's, so the times of two processes can be compared. The standard
library only, like all that drivers of peers share.
"""

import mmap
import threading
import time
from pathlib import Path
from typing import Final

_READY: Final = 0
_RUNS: Final = 1
_FIRST: Final = 2
_JOBS: Final = 3


class Board:
    """The file, mapped into this process.

    Args:
        path: Where it is.
        jobs: How many job numbers it has room for, for who makes it; None opens one that is there.
    """

    def __init__(self, path: Path, jobs: int | None = None) -> None:
        if jobs is not None:
            path.write_bytes(bytes(8 * (_JOBS + jobs)))
        with path.open("r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), 0)).cast("d")
        # Some peers run their handlers on several threads.
        self._lock = threading.Lock()

    def ready(self) -> None:
        """Say that the worker looks for jobs now."""
        self._cells[_READY] = time.monotonic()

    def ran(self, number: int) -> None:
        """Say that a job starts; every handler does so, first thing."""
        now, cells = time.monotonic(), self._cells
        with self._lock:
            if not cells[_RUNS]:
                cells[_FIRST] = now
            cells[_RUNS] += 1
        cells[_JOBS + number] = now

    @property
    def is_ready(self) -> bool:
        """Whether the worker has said that it looks for jobs."""
        return bool(self._cells[_READY])

    @property
    def runs(self) -> int:
        """How many jobs have started, each start counted."""
        return int(self._cells[_RUNS])

    @property
    def first(self) -> float:
        """When the first job started."""
        return self._cells[_FIRST]

    def started(self, number: int) -> float:
        """When a job started last, or 0."""
        return self._cells[_JOBS + number]
