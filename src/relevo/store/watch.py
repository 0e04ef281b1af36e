"""What we ask the tables for a live view: rows that are live or have just ended, never all.

Every statement is bounded by a number of rows that the caller names, so that a look costs
the same whatever the table keeps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.limit import Measure
from relevo.model.scope import Scope
from relevo.store.limits import LimitRow

STATEMENTS: Final = load_statements("relevo.store", "watch.sql")


@dataclass(frozen=True, slots=True)
class LiveRow:
    """The live jobs of one queue in the hands of one worker, or of none.

    Attributes:
        queue: The queue.
        worker: The session that runs them; None for jobs that wait.
        due: How many could start now.
        later: How many wait for their time.
        retrying: Of how many of those that wait a start has counted.
        running: How many run.
        started: How many started within the window.
        oldest: For how many seconds the first has been due; None where none is.
    """

    queue: str
    worker: int | None
    due: int
    later: int
    retrying: int
    running: int
    started: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class HeadRow:
    """What the heads of a long queue's lanes say: the fields mean the same as in `LiveRow`."""

    queue: str
    worker: int | None
    running: int
    started: int
    oldest: float | None


@dataclass(frozen=True, slots=True)
class EndedRow:
    """The jobs of a queue that have ended so since the window began.

    Attributes:
        queue: The queue.
        outcome: How they ended.
        seen: How many rows were read.
        jobs: How many ended within the window.
        started: How many started within it.
    """

    queue: str
    outcome: str
    seen: int
    jobs: int
    started: int


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A worker's session.

    Attributes:
        id: The session.
        name: What people call the worker.
        queues: What it serves.
        concurrency: How many jobs it may run at once.
        version: Its release.
        started_at: Since when.
        silent: For how many seconds nothing was heard of it.
        lease: For how many seconds its jobs are still its own; below zero they are lost.
        stopping: Whether it starts nothing more.
    """

    id: int
    name: str
    queues: list[str]
    concurrency: int
    version: str
    started_at: datetime
    silent: float
    lease: float
    stopping: bool


@dataclass(frozen=True, slots=True)
class PauseRow:
    """Something that rests; a tenant by its slug."""

    scope: Scope
    name: str
    paused_until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class UseRow(LimitRow):
    """A limit and how much of it is in use; a tenant by its slug.

    Attributes:
        is_whole: Whether every permit was looked at; else `used` is the least that it may be.
    """

    is_whole: bool


def read_clock() -> Operation[datetime]:
    """Answer the database's clock."""
    rows = yield Call(STATEMENTS["watch_clock"])
    now: datetime = rows[0][0]
    return now


def has_at_most(tenants: int) -> Operation[bool]:
    """Answer whether there are at most so many tenants."""
    rows = yield Call(STATEMENTS["watch_tenants"], {"tenants": tenants})
    return bool(rows[0][0])


def list_queues(queues: int) -> Operation[list[str]]:
    """Answer at most so many queues that have live jobs, by name."""
    found = yield Call(STATEMENTS["watch_queues"], {"queues": queues})
    return [row[0] for row in found]


def list_live(
    names: Sequence[str], *, rows: int, window: float, lag: float
) -> Operation[list[LiveRow]]:
    """Answer what waits and runs in the queues, from at most so many rows of each."""
    params = {"names": list(names), "rows": rows, "window": window, "lag": lag}
    found = yield Call(STATEMENTS["watch_live"], params)
    return [LiveRow(*row) for row in found]


def list_heads(
    names: Sequence[str], *, lanes: int, head: int, window: float, lag: float
) -> Operation[list[HeadRow]]:
    """Answer what runs at the heads of queues, from so many lanes of each and rows of a lane."""
    params = {"names": list(names), "lanes": lanes, "head": head, "window": window, "lag": lag}
    found = yield Call(STATEMENTS["watch_heads"], params)
    return [HeadRow(*row) for row in found]


def list_ended(*, rows: int, tenants: int, window: float, lag: float) -> Operation[list[EndedRow]]:
    """Answer what ended within the window, from at most so many rows of so many tenants."""
    params = {"rows": rows, "tenants": tenants, "window": window, "lag": lag}
    found = yield Call(STATEMENTS["watch_ended"], params)
    return [EndedRow(*row) for row in found]


def list_sessions(workers: int) -> Operation[list[SessionRow]]:
    """Answer at most so many sessions, by name."""
    found = yield Call(STATEMENTS["watch_workers"], {"workers": workers})
    return [SessionRow(*row) for row in found]


def list_pauses(pauses: int) -> Operation[list[PauseRow]]:
    """Answer at most so many pauses that stand."""
    found = yield Call(STATEMENTS["watch_pauses"], {"pauses": pauses})
    return [PauseRow(Scope(row[0]), *row[1:]) for row in found]


def list_uses(*, limits: int, permits: int) -> Operation[list[UseRow]]:
    """Answer at most so many limits, each from at most so many of its permits."""
    found = yield Call(STATEMENTS["watch_limits"], {"limits": limits, "permits": permits})
    return [UseRow(Scope(row[0]), row[1], Measure(row[2]), *row[3:]) for row in found]
