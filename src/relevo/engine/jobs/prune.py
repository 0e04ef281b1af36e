"""Take finished jobs whose retention is over out of the table, a few at a time."""

from dataclasses import dataclass
from typing import Final

from relevo.db.operation import Operation
from relevo.store.jobs import prune as prune_rows
from relevo.store.jobs.prune import BEGINNING, Place

__all__ = ["BATCH", "BEGINNING", "Place", "Pruned", "count_overdue", "prune"]

BATCH: Final = 1000
"""So many rows a transaction: short enough that nobody waits for it."""

count_overdue = prune_rows.count_overdue_jobs


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one batch took out.

    Attributes:
        jobs: How many jobs.
        archived: How many of them are in the archive now.
        last: Where it stopped.
    """

    jobs: int
    archived: int
    last: Place

    @property
    def is_full(self) -> bool:
        """Whether there may be more to take out at once."""
        return self.jobs == BATCH


def prune(after: Place = BEGINNING) -> Operation[Pruned]:
    """Take one batch out of the table, into the archive where it is on.

    Rows of kinds that are kept, and rows whose key still holds, are never read. Needs a
    transaction: on commit the jobs are gone, or archived with the history of their attempts;
    on roll-back they stay.

    Args:
        after: Where the batch before stopped.
    """
    taken = yield from prune_rows.prune_jobs(BATCH, after)
    last = max((place for place, _archived in taken), default=after)
    return Pruned(len(taken), sum(archived for _place, archived in taken), last)
