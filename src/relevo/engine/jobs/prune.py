"""Delete finished jobs whose retention is over, a few at a time."""

from typing import Final

from relevo.db.operation import Operation
from relevo.store.jobs import prune as prune_rows

BATCH: Final = 1000
"""So many rows a transaction: short enough that nobody waits for it."""


def prune() -> Operation[int]:
    """Delete one batch and answer how many rows it had; fewer than `BATCH` means done.

    Rows of kinds that are kept, and rows whose key still holds, are never read. On
    commit the rows are gone with the history of their attempts.
    """
    pruned = yield from prune_rows.prune_jobs(BATCH)
    return pruned
