"""Jobs that exist to be measured: count what is left of them, and leave no trace of them."""

from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.store.jobs import measured as rows

__all__ = ["count_unfinished", "erase", "take_job_id"]

BATCH: Final = 5000

take_job_id = rows.take_job_id
count_unfinished = rows.count_unfinished_jobs


def erase(tenant_id: UUID, queue: str, kind: str, first: int) -> Operation[None]:
    """Delete all jobs of a queue and kind from an id on, in batches, whatever their state.

    Outside a transaction each batch commits by itself. A worker that still holds one of
    them finds out when it answers.

    Args:
        tenant_id: Whose jobs.
        queue: Of this queue only.
        kind: Of this kind only.
        first: What `take_job_id` answered before the first of them was added.
    """
    following: int | None = first
    while following is not None:
        last = yield from rows.erase_jobs(tenant_id, queue, kind, first=following, limit=BATCH)
        following = None if last is None else last + 1
