"""What waits in the queues, and which of them rest: read beside the workers, changing nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from relevo.cli.language import gettext as _
from relevo.db.operation import Operation
from relevo.engine.jobs.inspect import Waiting, list_waiting
from relevo.engine.pauses import list_pauses
from relevo.model.scope import Scope

__all__ = [
    "Pause",
    "Waiting",
    "count_by_queue",
    "list_resting",
    "list_waiting",
    "say_pause",
    "say_waiting",
]


@dataclass(frozen=True, slots=True)
class Pause:
    """A queue that rests.

    Attributes:
        queue: The queue.
        until: When it goes on by itself; None where somebody has to resume it.
        reason: Why it rests, readable.
    """

    queue: str
    until: datetime | None
    reason: str

    @property
    def said(self) -> str:
        """Until when and why, for people."""
        return say_pause(self.until, self.reason)


def say_pause(until: datetime | None, reason: str) -> str:
    """Say until when something rests, and why.

    Args:
        until: When it goes on by itself; None where somebody has to resume it.
        reason: Why it rests.
    """
    if until is None:
        return _("paused until it is resumed: %(reason)s") % {"reason": reason}
    when = f"{until.astimezone():%Y-%m-%d %H:%M:%S %Z}"
    return _("paused until %(until)s: %(reason)s") % {"until": when, "reason": reason}


def list_resting() -> Operation[dict[str, Pause]]:
    """Answer the queues that rest at this moment, by name."""
    rows = yield from list_pauses()
    return {
        row.name: Pause(row.name, row.paused_until, row.reason)
        for row in rows
        if row.scope is Scope.QUEUE
    }


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
