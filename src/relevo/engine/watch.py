"""Look at everything at once: what waits, runs and ends in every queue, and who works.

A look reads live jobs and those that have just ended, each up to a bound, and changes
nothing. Where a bound was reached the figures say so: they are at least what they say.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from relevo.db.operation import Operation
from relevo.store import watch
from relevo.store.watch import EndedRow, HeadRow, LiveRow, PauseRow, SessionRow, UseRow

__all__ = ["Look", "PauseRow", "QueueLook", "SessionRow", "UseRow", "look_around"]

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
        retrying: How many of those that wait have failed before.
        running: How many run.
        oldest: For how many seconds the first has been due; None where none is.
        starts: How many start in a second.
        completions: How many complete in a second.
        failures: How many fail for good in a second.
        is_whole: Whether every live job of the queue was counted; else there are more.
    """

    queue: str
    due: int
    later: int
    retrying: int
    running: int
    oldest: float | None
    starts: float
    completions: float
    failures: float
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment.

    Attributes:
        looked_at: The moment, by the database's clock.
        window: Over how many seconds the rates are counted.
        ended: How many jobs that ended were read.
        rates_are_whole: Whether that was everything that has ended since the window began.
        queues: The queues that have live jobs or live workers, or in which jobs ended.
        workers: The sessions.
        running: How many jobs each session runs, by its id.
        pauses: What rests.
        limits: The limits and how much of them is in use.
        is_whole: Whether no queue, worker, pause or limit had to be left out.
    """

    looked_at: datetime
    window: float
    ended: int
    rates_are_whole: bool
    queues: list[QueueLook]
    workers: list[SessionRow]
    running: dict[int, int]
    pauses: list[PauseRow]
    limits: list[UseRow]
    is_whole: bool


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

    def look(self, queue: str, ended: Mapping[str, EndedRow], window: float) -> QueueLook:
        started = self.started + sum(row.started for row in ended.values())
        return QueueLook(
            queue=queue,
            due=self.due,
            later=self.later,
            retrying=self.retrying,
            running=sum(self.running.values()),
            oldest=self.oldest,
            starts=started / window,
            completions=ended["completed"].jobs / window if "completed" in ended else 0.0,
            failures=ended["failed"].jobs / window if "failed" in ended else 0.0,
            is_whole=self.is_whole,
        )


def look_around(*, rows: int, window: float) -> Operation[Look]:
    """Look once, each statement by itself; only a role that sees every tenant sees all of it.

    Args:
        rows: How many live jobs, and how many that ended, are read at most.
        window: Over how many seconds the rates are counted.
    """
    looked_at, tenants_are_whole = yield from watch.read_clock(TENANTS)
    names = yield from watch.list_queues(QUEUES)
    sums = yield from _count_live(names, rows, window)
    ended = yield from watch.list_ended(rows=rows, tenants=TENANTS, window=window, lag=LAG)
    read = sum(row.seen for row in ended)
    by_queue: defaultdict[str, dict[str, EndedRow]] = defaultdict(dict)
    for row in ended:
        by_queue[row.queue][row.outcome] = row
    workers = yield from watch.list_sessions(WORKERS)
    served = {queue for each in workers if each.lease > 0 for queue in each.queues}
    pauses = yield from watch.list_pauses(OTHERS)
    limits = yield from watch.list_uses(limits=OTHERS, permits=PERMITS)
    running: Counter[int] = Counter()
    for each in sums.values():
        running.update(each.running)
    return Look(
        looked_at=looked_at,
        window=window,
        ended=read,
        rates_are_whole=tenants_are_whole and read < rows,
        queues=[
            sums.get(queue, _Sum()).look(queue, by_queue[queue], window)
            for queue in sorted({*sums, *by_queue, *served})
        ],
        workers=workers,
        running=dict(running),
        pauses=pauses,
        limits=limits,
        is_whole=len(names) < QUEUES
        and len(workers) < WORKERS
        and max(len(pauses), len(limits)) < OTHERS,
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
