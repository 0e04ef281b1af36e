"""Let jobs start again, and take back those that are not wanted any more."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from relevo.db.operation import Operation
from relevo.engine.jobs.errors import JobArchived, JobHeld, JobNotFound, KeyHeld
from relevo.model.checks import check_type
from relevo.model.job import JobState
from relevo.model.retention import DEFAULT_RETENTION, Retention
from relevo.store import archive
from relevo.store.jobs import again as again_rows
from relevo.store.jobs import enqueue as enqueue_rows


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of jobs that are not wanted any more.

    Attributes:
        cancelled: How many were waiting and have ended.
        asked: How many are running and were asked to stop; each ends as cancelled
            unless it completes.
    """

    cancelled: int
    asked: int


def requeue(tenant_id: UUID, job_id: int, actor: str | None = None) -> Operation[None]:
    """Make a job due now; a finished one gets all its attempts anew, its history kept.

    Needs a transaction: on commit the job is due and a worker is told, on roll-back
    nothing has changed.

    Args:
        tenant_id: Whose job.
        job_id: Which job.
        actor: Who asks, kept on the row.

    Raises:
        JobNotFound: The tenant has no such job.
        JobArchived: It has been archived.
        JobHeld: A worker is running it.
        KeyHeld: Another live job holds its key.
    """
    standing = yield from again_rows.lock_job(tenant_id, job_id)
    if standing is None:
        archived = yield from archive.show_job(tenant_id, job_id)
        raise JobNotFound(id=job_id) if archived is None else JobArchived(id=job_id)
    state, attempt, kind, key_is_held = standing
    if state is JobState.RUNNING:
        raise JobHeld(id=job_id, attempt=attempt)
    if key_is_held and state is not JobState.AVAILABLE:
        raise KeyHeld(id=job_id, kind=kind)
    yield from requeue_jobs(tenant_id, [job_id], actor=actor)


def requeue_jobs(
    tenant_id: UUID,
    ids: Sequence[int],
    *,
    delay: timedelta = timedelta(0),
    actor: str | None = None,
    queue: str | None = None,
) -> Operation[int]:
    """Let jobs start again, all of them in one statement.

    Finished ones get all their attempts anew, their history kept. One that is running
    goes on; had it been asked to stop, it is asked no more. Needs a transaction: on
    commit the jobs are due after the delay, on roll-back nothing has changed. A finished
    job whose live key another job has taken makes the transaction fail.

    Args:
        tenant_id: Whose jobs.
        ids: Which jobs; those that the tenant does not have are left out.
        delay: How long they wait.
        actor: Who asks, kept on the rows.
        queue: Where finished ones are to wait, if not where they waited before.

    Returns:
        How many jobs it concerned.

    Raises:
        InvalidOption: The tenant is no id, or the delay no time.
    """
    check_type("tenant_id", tenant_id, UUID)
    check_type("delay", delay, timedelta)
    if not ids:
        return 0
    queues = yield from again_rows.requeue_jobs(
        tenant_id, ids, delay=delay, actor=actor, queue=queue
    )
    if not delay:
        for place in sorted(set(queues.values())):
            yield from enqueue_rows.wake_workers(place)
    return len(queues)


def cancel_jobs(
    tenant_id: UUID, kind: str, aggregate_id: str, retention: Retention = DEFAULT_RETENTION
) -> Operation[Cancelled]:
    """End the waiting jobs of one aggregate as cancelled, and ask running ones to stop.

    Needs a transaction: on commit none of them starts any more, on roll-back nothing has
    changed.

    Args:
        tenant_id: Whose jobs.
        kind: Of which kind.
        aggregate_id: What they are about.
        retention: How long the cancelled ones stay in the table; `KEEP` where a unique
            index of yours relies on them. Those that are running end by their kind's.

    Raises:
        InvalidOption: The tenant is no id, or the retention is none.
    """
    check_type("tenant_id", tenant_id, UUID)
    check_type("retention", retention, Retention)
    keep = retention.keep(completed=False)
    cancelled, asked = yield from again_rows.cancel_jobs(tenant_id, kind, aggregate_id, keep)
    return Cancelled(cancelled, asked)
