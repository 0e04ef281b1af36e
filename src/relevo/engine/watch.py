"""Look at everything at once: what waits, runs and ends in every queue, and who works.

A look reads live jobs and those that have just ended, each up to a bound, and changes
nothing. Where a bound was reached the figures say so: they are at least what they say.
It has four parts, each an operation of its own, so that one which takes too long (rows
that a forgotten transaction keeps, a locked table) leaves the others be.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from relevo.db.operation import Operation
from relevo.store import watch
from relevo.store.watch import EndedRow, HeadRow, LiveRow, PauseRow, SessionRow, UseRow

__all__ = [
    "Ended",
    "Live",
    "Look",
    "PauseRow",
    "QueueLook",
    "SessionRow",
    "Standing",
    "UseRow",
    "look_at_ended",
    "look_at_live",
    "look_at_standing",
    "look_at_uses",
    "put_together",
]

LAG: Final = 0.25
"""The window ends so many seconds ago: what ended before has been committed by now."""

QUEUES: Final = 500
TENANTS: Final = 20_000
WORKERS: Final = 1_000
OTHERS: Final = 200
"""The most queues, tenants, workers, and pauses or limits that a look is about."""

PERMITS: Final = 2_000
"""The most permits of one limit that are read."""

HEAD: Final = 200
"""How far a lane of a long queue is read: what runs stands before what waits."""


@dataclass(frozen=True, slots=True)
class QueueLook:
    """One queue.

    Attributes:
        queue: The queue.
        due: How many jobs could start now.
        later: How many wait for their time.
        retrying: Of how many of those that wait a start has counted.
        running: How many run.
        oldest: For how many seconds the first has been due; None where none is.
        starts: How many start in a second.
        completions: How many complete in a second.
        failures: How many fail for good in a second.
        is_whole: Whether every live job of the queue was counted; else there are more.
    """

    queue: str
    due: int = 0
    later: int = 0
    retrying: int = 0
    running: int = 0
    oldest: float | None = None
    starts: float = 0.0
    completions: float = 0.0
    failures: float = 0.0
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment.

    Attributes:
        looked_at: The moment, by the database's clock.
        window: Over how many seconds the rates are counted.
        has_live: Whether live jobs were counted.
        has_rates: Whether jobs that ended were counted.
        rates_are_whole: Whether those were all that have ended since the window began.
        queues: The queues that have live jobs or live workers, or in which jobs ended.
        workers: The sessions.
        running: How many jobs each session runs, by its id.
        pauses: What rests.
        limits: The limits and how much of them is in use; None where that was not counted.
        is_whole: Whether no queue, worker, pause or limit had to be left out.
    """

    looked_at: datetime
    window: float
    has_live: bool
    has_rates: bool
    rates_are_whole: bool
    queues: list[QueueLook]
    workers: list[SessionRow]
    running: dict[int, int]
    pauses: list[PauseRow]
    limits: list[UseRow] | None
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Live:
    """The live jobs.

    Attributes:
        queues: What is known of each queue but what has ended; `starts` are those of live jobs.
        running: How many jobs each session runs, by its id.
        is_whole: Whether no queue had to be left out.
    """

    queues: dict[str, QueueLook]
    running: dict[int, int]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The jobs that have ended since the window began.

    Attributes:
        rows: How many, by queue and outcome.
        read: How many were read.
        is_whole: Whether those were all.
    """

    rows: list[EndedRow]
    read: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """What stands whatever the jobs do: the moment, the sessions and the pauses."""

    looked_at: datetime
    workers: list[SessionRow]
    pauses: list[PauseRow]

    @property
    def is_whole(self) -> bool:
        """Whether nothing had to be left out."""
        return len(self.workers) < WORKERS and len(self.pauses) < OTHERS


@dataclass(slots=True)
class _Sum:
    """What the rows say of one queue."""

    due: int = 0
    later: int = 0
    retrying: int = 0
    started: int = 0
    oldest: float | None = None
    running: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True

    def add_live(self, row: LiveRow) -> None:
        self.due += row.due
        self.later += row.later
        self.retrying += row.retrying
        self.started += row.started
        self._add(row.worker, row.running, row.oldest)

    def add_heads(self, rows: Sequence[HeadRow]) -> None:
        """Add what the heads of its lanes say: of what both looks may have seen the better one."""
        self.is_whole = False
        self.started = max(self.started, sum(row.started for row in rows))
        for row in rows:
            self._add(row.worker, row.running, row.oldest)

    def _add(self, worker: int | None, running: int, oldest: float | None) -> None:
        if worker is not None:
            self.running[worker] = max(self.running.get(worker, 0), running)
        if oldest is not None:
            self.oldest = max(self.oldest or 0.0, oldest)

    @property
    def seen(self) -> int:
        """How many live jobs were read."""
        return self.due + self.later + sum(self.running.values())

    def look(self, queue: str, window: float) -> QueueLook:
        return QueueLook(
            queue=queue,
            due=self.due,
            later=self.later,
            retrying=self.retrying,
            running=sum(self.running.values()),
            oldest=self.oldest,
            starts=self.started / window,
            is_whole=self.is_whole,
        )


def look_at_standing() -> Operation[Standing]:
    """Look at everything that no job is asked for."""
    looked_at = yield from watch.read_clock()
    workers = yield from watch.list_sessions(WORKERS)
    pauses = yield from watch.list_pauses(OTHERS)
    return Standing(looked_at, workers, pauses)


def look_at_uses() -> Operation[list[UseRow]]:
    """Look at the limits and at how much of each is in use."""
    limits = yield from watch.list_uses(limits=OTHERS, permits=PERMITS)
    return limits


def look_at_live(*, rows: int, window: float) -> Operation[Live]:
    """Look at live jobs; only a role that sees every tenant sees all of them.

    Args:
        rows: How many are read at most.
        window: Over how many seconds starts are counted.
    """
    names = yield from watch.list_queues(QUEUES)
    sums = yield from _count_live(names, rows, window)
    running: Counter[int] = Counter()
    for each in sums.values():
        running.update(each.running)
    return Live(
        queues={queue: each.look(queue, window) for queue, each in sums.items()},
        running=dict(running),
        is_whole=len(names) < QUEUES,
    )


def look_at_ended(*, rows: int, window: float) -> Operation[Ended]:
    """Look at the jobs that have just ended; only a role that sees every tenant sees all of them.

    Args:
        rows: How many are read at most.
        window: Over how many seconds they are counted.
    """
    tenants_are_whole = yield from watch.has_at_most(TENANTS)
    ended = yield from watch.list_ended(rows=rows, tenants=TENANTS, window=window, lag=LAG)
    read = sum(row.seen for row in ended)
    return Ended(ended, read, is_whole=tenants_are_whole and read < rows)


def put_together(
    standing: Standing,
    live: Live | None,
    ended: Ended | None,
    limits: list[UseRow] | None,
    window: float,
) -> Look:
    """Put the parts of one look together.

    Args:
        standing: What no job is asked for.
        live: The live jobs, or None where they could not be counted.
        ended: The jobs that have just ended, or None where they could not be counted.
        limits: The limits, or None where their use could not be counted.
        window: Over how many seconds jobs were counted.
    """
    queues = {} if live is None else dict(live.queues)
    served = {name for each in standing.workers if each.lease > 0 for name in each.queues}
    rows = [] if ended is None else ended.rows
    for name in served | {row.queue for row in rows}:
        queues.setdefault(name, QueueLook(name, is_whole=live is not None))
    for row in rows:
        queue = queues[row.queue]
        queues[row.queue] = replace(
            queue,
            starts=queue.starts + row.started / window,
            completions=queue.completions + (row.outcome == "completed") * row.jobs / window,
            failures=queue.failures + (row.outcome == "failed") * row.jobs / window,
        )
    return Look(
        looked_at=standing.looked_at,
        window=window,
        has_live=live is not None,
        has_rates=ended is not None,
        rates_are_whole=ended is not None and ended.is_whole,
        queues=[queues[name] for name in sorted(queues)],
        workers=standing.workers,
        running={} if live is None else live.running,
        pauses=standing.pauses,
        limits=limits,
        is_whole=standing.is_whole
        and (live is None or live.is_whole)
        and len(limits or ()) < OTHERS,
    )


def _count_live(names: Sequence[str], rows: int, window: float) -> Operation[dict[str, _Sum]]:
    """Count the live jobs of the queues: first equal shares, then the long ones with the rest."""
    if not names:
        return {}
    share = max(rows // len(names), 1)
    sums = yield from _count(names, share, window)
    long = [queue for queue, each in sums.items() if each.seen >= share]
    if not long:
        return sums
    rest = (rows - sum(each.seen for each in sums.values())) // len(long)
    if rest > 0:
        share += rest
        sums |= yield from _count(long, share, window)
        long = [queue for queue in long if sums[queue].seen >= share]
    if long:
        lanes = max(rows // HEAD // len(long), 1)
        heads = yield from watch.list_heads(long, lanes=lanes, head=HEAD, window=window, lag=LAG)
        for queue in long:
            sums[queue].add_heads([row for row in heads if row.queue == queue])
    return sums


def _count(names: Sequence[str], share: int, window: float) -> Operation[dict[str, _Sum]]:
    live = yield from watch.list_live(names, rows=share, window=window, lag=LAG)
    # A queue whose last job has ended since its name was read has no row.
    sums = {name: _Sum() for name in names}
    for row in live:
        sums[row.queue].add_live(row)
    return sums
