"""Take back what ended sessions held, by the same bound as any failure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.model.job import JobState
from relevo.model.retention import DAYS_FAILED
from relevo.store import workers
from relevo.store.jobs import enqueue as enqueue_rows
from relevo.store.jobs import recover as recover_rows

UNSERVED_DELAY: Final = timedelta(seconds=30)
UNSERVED_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class RescuedJob:
    """A job that was taken back, and what became of it."""

    tenant_id: UUID
    id: int
    state: JobState
    queue: str
    kind: str


def end_expired_sessions() -> Operation[dict[int, str]]:
    """End the sessions whose lease ran out; answer their names by id.

    A claim of such a session that is still under way is waited for, so that none can
    commit after the end.
    """
    ended = yield from workers.delete_expired_workers()
    return ended


def find_missing_sessions() -> Operation[list[int]]:
    """Note for the rescue the sessions that jobs name and nobody knows; answer their ids.

    A job and the sessions that exist are enough to recover it, whatever took the row of
    its session away.
    """
    missing = yield from workers.note_missing_workers()
    return missing


def rescue_lost_jobs(kept_kinds: Sequence[str] = ()) -> Operation[list[RescuedJob]]:
    """Take back the jobs of ended sessions in one pass, and forget the sessions.

    Needs a transaction: on commit jobs and sessions are settled together, on roll-back
    the next rescuer finds both as they were.

    Args:
        kept_kinds: The kinds whose failed jobs stay until their owner is purged.
    """
    ended = yield from workers.lock_ended_workers()
    if not ended:
        return []
    rows = yield from recover_rows.rescue_jobs(ended, DAYS_FAILED.total_seconds(), kept_kinds)
    rescued = [RescuedJob(*row) for row in rows]
    for queue in sorted({job.queue for job in rescued if job.state is JobState.AVAILABLE}):
        yield from enqueue_rows.wake_workers(queue)
    return rescued


def postpone_unserved(queue: str) -> Operation[dict[str, int]]:
    """Put off due jobs at the head of a queue that no live worker can run, without a charge."""
    postponed = yield from recover_rows.postpone_unserved_jobs(
        queue, UNSERVED_DELAY, UNSERVED_BATCH
    )
    return postponed
