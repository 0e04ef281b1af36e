"""Read jobs for people and tools, and let an operator try one again."""

from dataclasses import dataclass
from uuid import UUID

from relevo.db.operation import Operation
from relevo.engine.jobs.errors import JobHeld, JobNotFound, KeyHeld
from relevo.model.job import Attempt, Job, JobState
from relevo.store import attempts, jobs, queues, workers

__all__ = [
    "JobPage",
    "Waiting",
    "count",
    "list_page",
    "list_queues",
    "list_waiting",
    "list_workers",
    "requeue",
    "show",
]

list_queues = queues.list_queues
list_waiting = jobs.list_waiting
Waiting = jobs.Waiting
list_workers = workers.list_workers
count = jobs.count_jobs


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, newest first.

    Attributes:
        jobs: The jobs of the page.
        before: What to pass for the next page, or None on the last one.
    """

    jobs: list[Job]
    before: int | None


def list_page(
    tenant_id: UUID,
    *,
    queue: str | None = None,
    kind: str | None = None,
    state: JobState | None = None,
    retrying: bool | None = None,
    aggregate_id: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Operation[JobPage]:
    """Answer one page of a tenant's jobs.

    Args:
        tenant_id: Whose jobs.
        queue: Only of this queue.
        kind: Only of this kind.
        state: Only in this state.
        retrying: Only jobs that wait for a retry (or only those that do not).
        aggregate_id: Only of this aggregate.
        before: The `before` of the page that came first.
        limit: At most so many jobs.
    """
    found = yield from jobs.list_jobs(
        tenant_id,
        queue=queue,
        kind=kind,
        state=None if state is None else state.value,
        retrying=retrying,
        aggregate_id=aggregate_id,
        before=before,
        limit=limit + 1,
    )
    page = found[:limit]
    return JobPage(page, page[-1].id if len(found) > limit else None)


def show(tenant_id: UUID, job_id: int) -> Operation[tuple[Job, list[Attempt]]]:
    """Answer one job and the history of its attempts.

    Raises:
        JobNotFound: The tenant has no such job.
    """
    job = yield from jobs.show_job(tenant_id, job_id)
    if job is None:
        raise JobNotFound(id=job_id)
    history = yield from attempts.list_attempts(tenant_id, job_id)
    return job, history


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
        JobHeld: A worker is running it.
        KeyHeld: Another live job holds its key.
    """
    standing = yield from jobs.lock_job(tenant_id, job_id)
    if standing is None:
        raise JobNotFound(id=job_id)
    state, attempt, kind, key_is_held = standing
    if state is JobState.RUNNING:
        raise JobHeld(id=job_id, attempt=attempt)
    if key_is_held and state is not JobState.AVAILABLE:
        raise KeyHeld(id=job_id, kind=kind)
    queue = yield from jobs.requeue_job(tenant_id, job_id, actor)
    if queue is not None:
        yield from jobs.wake_workers(queue)
