"""Start the processes of the field cases, and read what they left."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from workers import Child, query, wait_until

HERE = Path(__file__).parent
BOUND = 60.0

BUSY = timedelta(seconds=2)
"""What a machine with two busy cores may add to a bound that is told by the server's clock."""


def environment(**more: str) -> dict[str, str]:
    """What a process needs to find the tests' modules."""
    return {**os.environ, "PYTHONPATH": str(HERE.parent), **more}


class FieldChild(Child):
    """A worker process that serves `field_jobs`."""

    def __init__(
        self, dsn: str, name: str, env: Mapping[str, str] | None = None, **changes: float
    ) -> None:
        self.name = name
        self.log = []
        words = [f"{key}={value}" for key, value in changes.items()]
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "field_worker.py"), dsn, name, *words],
            env=environment(**(env or {})),
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def a_field_child(
    dsn: str, name: str, env: Mapping[str, str] | None = None, **changes: float
) -> Iterator[FieldChild]:
    """A worker process, gone when the test is over."""
    child = FieldChild(dsn, name, env, **changes)
    try:
        yield child
    finally:
        child.end()


def clock(dsn: str) -> datetime:
    """What the database's clock says."""
    return query(dsn, "SELECT clock_timestamp()")[0][0]


def marks(dsn: str, note: str) -> list[tuple[int, int, int]]:
    """Job, attempt and process of every mark with such a note, oldest first."""
    return query(
        dsn, "SELECT job_id, attempt, pid FROM public.effects WHERE note = %s ORDER BY id", note
    )


def marked_at(dsn: str, note: str, attempt: int) -> datetime:
    """When, by the database, the last such mark was left."""
    return query(
        dsn, "SELECT max(at) FROM public.effects WHERE note = %s AND attempt = %s", note, attempt
    )[0][0]


def last_stuck(dsn: str, is_over: Callable[[], bool], what: str) -> datetime:
    """Wait until it is over; answer when, by the database, a job was last seen stuck.

    Stuck is what runs under a session that does not exist or whose lease is over.
    """
    stuck = (
        "SELECT clock_timestamp() FROM relevo.jobs AS j"
        " LEFT JOIN relevo.workers AS w ON w.id = j.worker"
        " WHERE j.state = 'running' AND (w.id IS NULL OR w.expires_at < clock_timestamp()) LIMIT 1"
    )
    seen: list[datetime] = []

    def look() -> bool:
        seen.extend(at for (at,) in query(dsn, stuck))
        return is_over()

    wait_until(look, BOUND, what)
    assert seen, "no job was stuck at first, so it proves nothing that none was later"
    return max(seen)


def is_blocked(dsn: str, program: str = "%") -> bool:
    """Whether some backend of this database waits for a lock."""
    return bool(
        query(
            dsn,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND application_name LIKE %s",
            program,
        )
    )
