"""What processes saw with their own eyes, kept outside the database.

A witness survives what the engine might forget: every line is on the disk before the
process goes on. It never reads the database and never decides anything.
"""

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from faults.evidence.records import Note


class Witness:
    """One append-only file of one process; a forked child opens its own.

    Args:
        path: The file; it is made where it does not exist.
        is_synced: Whether each line waits for the disk. A process that is killed loses
            nothing either way; a machine that stops does.
    """

    def __init__(self, path: Path, *, is_synced: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._is_synced = is_synced
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, what: str, **fields: Any) -> None:
        """Write one line; when this returns it is kept.

        Args:
            what: `intent`, `enqueued`, `rolled_back`, `unknown`, `start`, `end`, `effect`,
                `delivered` or `sample`.
            fields: `ref` (the enqueuer's own reference, used once and in the payload as well),
                `unit` (the transaction that several refs share; default is the ref itself, and
                an answer without a ref is about the whole unit), `created`
                (False where a key was held), `job_id`, `tenant_id`, `attempt`, `session`,
                `kind`, `key`, and whatever else helps a reader.
        """
        line = {"what": what, "at": time.time_ns(), "pid": os.getpid(), **fields}
        text = json.dumps(line, default=str) + "\n"
        with self._lock:
            # One write, so that a kill leaves the whole line or none of it.
            os.write(self._file, text.encode())
            if self._is_synced:
                os.fsync(self._file)

    def close(self) -> None:
        """Close the file; what was noted stays."""
        os.close(self._file)


def read_notes(paths: Sequence[Path]) -> tuple[Note, ...]:
    """Answer every line of every witness, each file in its own order."""
    return tuple(note for path in paths for note in _read(path))


def _read(path: Path) -> Iterator[Note]:
    # A process that was killed before it could say anything has left no file.
    lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
    # The last one is empty, or was cut when its writer was killed: nothing followed from it.
    for number, line in enumerate(lines[:-1]):
        yield Note.from_line(json.loads(line), source=path.name, number=number)
