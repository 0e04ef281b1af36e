"""What waits in the queues, and which of them rest: read beside the workers, changing nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from relevo.cli.language import gettext as _
from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.engine.jobs import inspect

_STATEMENTS: Final = load_statements("relevo.cli", "waiting.sql")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The jobs of one kind that wait in one queue.

    Attributes:
        queue: The queue.
        kind: The kind.
        due: How many could run now.
        later: How many wait for their time, retries among them.
        seconds: How long the first of them has been due; 0 where none is.
    """

    queue: str
    kind: str
    due: int
    later: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A queue that rests.

    Attributes:
        queue: The queue.
        until: When it goes on by itself.
        reason: Why it rests, readable.
    """

    queue: str
    until: datetime
    reason: str

    @property
    def said(self) -> str:
        """Until when and why, for people."""
        until = f"{self.until.astimezone():%Y-%m-%d %H:%M:%S %Z}"
        return _("paused until %(until)s: %(reason)s") % {"until": until, "reason": self.reason}


def list_waiting() -> Operation[list[Waiting]]:
    """Answer what waits, by queue and kind; only a role that sees every tenant sees all of it."""
    rows = yield Call(_STATEMENTS["list_waiting"])
    return [Waiting(*row) for row in rows]


def list_pauses() -> Operation[dict[str, Pause]]:
    """Answer the queues that rest at this moment, by name."""
    now, pauses = datetime.now(UTC), {}
    for row in (yield from inspect.list_queues()):
        if row.paused_until is not None and row.paused_until > now:
            pauses[row.name] = Pause(row.name, row.paused_until, row.paused_reason or "")
    return pauses


def count_by_queue(waiting: Iterable[Waiting]) -> dict[str, int]:
    """Answer how many jobs wait in each queue, due or not."""
    counts: dict[str, int] = {}
    for each in waiting:
        counts[each.queue] = counts.get(each.queue, 0) + each.due + each.later
    return counts


def say_waiting(counts: Mapping[str, int], pauses: Mapping[str, Pause]) -> str:
    """Say in one line what waits where, and which queue rests.

    Args:
        counts: How many jobs wait in each queue.
        pauses: The queues that rest.
    """
    listed = [
        f"{queue} {counts.get(queue, 0)} ({pauses[queue].said})"
        if queue in pauses
        else f"{queue} {counts[queue]}"
        for queue in sorted({*counts, *pauses})
    ]
    return ", ".join(listed)
