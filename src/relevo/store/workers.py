"""What we say about relevo.workers and the sessions that have ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store", "workers.sql")


@dataclass(frozen=True, slots=True)
class Clock:
    """What a rescuer has to know of time, in seconds.

    Attributes:
        now: The database's clock, since 1970.
        up_for: How long the server has been up.
        lease_ends_in: When the first of the leases ends that have not ended; None without any.
    """

    now: float
    up_for: float
    lease_ends_in: float | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A session as its row says."""

    id: int
    name: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    version: str
    started_at: datetime
    heartbeat_at: datetime
    is_live: bool
    stopping: bool


def insert_worker(
    name: str,
    *,
    queues: Sequence[str],
    kinds: Sequence[str],
    concurrency: int,
    version: str,
    lease: float,
) -> Operation[int]:
    """Answer the id of the new session; the lease is in seconds."""
    params = {
        "name": name,
        "queues": list(queues),
        "kinds": list(kinds),
        "concurrency": concurrency,
        "version": version,
        "lease": lease,
    }
    rows = yield Call(STATEMENTS["insert_worker"], params)
    return int(rows[0][0])


def renew_worker(worker: int, lease: float) -> Operation[bool]:
    """Answer whether the session still exists; the lease is in seconds."""
    rows = yield Call(STATEMENTS["renew_worker"], {"worker": worker, "lease": lease})
    return bool(rows)


def mark_worker_idle(worker: int, *, idle: bool) -> Operation[None]:
    """Say whether the worker wants to be woken."""
    yield Call(STATEMENTS["mark_worker_idle"], {"worker": worker, "idle": idle})


def mark_worker_stopping(worker: int) -> Operation[None]:
    """Say that the worker starts nothing more."""
    yield Call(STATEMENTS["mark_worker_stopping"], {"worker": worker})


def expire_worker(worker: int) -> Operation[None]:
    """Give the lease back before its time."""
    yield Call(STATEMENTS["expire_worker"], {"worker": worker})


def delete_worker(worker: int) -> Operation[None]:
    """End one session whose lease is over."""
    yield Call(STATEMENTS["delete_worker"], {"worker": worker})


def delete_expired_workers() -> Operation[dict[int, str]]:
    """End the sessions whose lease ran out; answer their names by id."""
    rows = yield Call(STATEMENTS["delete_expired_workers"])
    return {row[0]: row[1] for row in rows}


def lock_ended_workers() -> Operation[list[int]]:
    """Answer ended sessions that nobody else is rescuing, locked until the commit."""
    rows = yield Call(STATEMENTS["lock_ended_workers"], needs_transaction=True)
    return [row[0] for row in rows]


def note_missing_workers() -> Operation[list[int]]:
    """Note the sessions that jobs name and no row knows; answer their ids."""
    rows = yield Call(STATEMENTS["note_missing_workers"])
    return [row[0] for row in rows]


def read_clock() -> Operation[Clock]:
    """Answer the database's clock, and when the next lease ends by it."""
    rows = yield Call(STATEMENTS["read_clock"])
    return Clock(*rows[0])


def list_workers() -> Operation[list[WorkerRow]]:
    """Answer the sessions that exist, oldest first."""
    rows = yield Call(STATEMENTS["list_workers"])
    return [WorkerRow(*row) for row in rows]
