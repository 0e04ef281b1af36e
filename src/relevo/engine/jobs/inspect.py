"""Read jobs for people and tools; nothing is changed here."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from relevo.db.operation import Operation
from relevo.engine.jobs.errors import JobNotFound
from relevo.engine.jobs.rescue import UNSERVED_DELAY
from relevo.model.job import Attempt, Job, JobState
from relevo.store import archive, attempts, workers
from relevo.store.jobs import read as read_rows

__all__ = [
    "Found",
    "JobPage",
    "Waiting",
    "count",
    "find",
    "list_page",
    "list_waiting",
    "list_workers",
    "show",
]

Waiting = read_rows.Waiting
list_workers = workers.list_workers
count = read_rows.count_jobs


@dataclass(frozen=True, slots=True)
class Found:
    """A job, wherever it is.

    Attributes:
        job: The job.
        attempts: Its starts that did not complete it, oldest first.
        archived_at: Since when it is in the archive; None while it is among the jobs.
    """

    job: Job
    attempts: list[Attempt]
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page of jobs, newest first.

    Attributes:
        jobs: The jobs of the page.
        before: What to pass for the next page, or None on the last one.
    """

    jobs: list[Job]
    before: int | None


def list_waiting() -> Operation[list[Waiting]]:
    """Answer what waits, by queue and kind; only a role that sees every tenant sees all of it.

    Soon is what workers may have put off because none of them serves its kind.
    """
    return read_rows.list_waiting(UNSERVED_DELAY)


def list_page(
    tenant_id: UUID,
    *,
    queue: str | None = None,
    kind: str | None = None,
    state: JobState | None = None,
    retrying: bool | None = None,
    due: bool | None = None,
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
        due: Only jobs whose time has come (or only those whose time has not).
        aggregate_id: Only of this aggregate.
        before: The `before` of the page that came first.
        limit: At most so many jobs.
    """
    found = yield from read_rows.list_jobs(
        tenant_id,
        queue=queue,
        kind=kind,
        state=None if state is None else state.value,
        retrying=retrying,
        due=due,
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
    job = yield from read_rows.show_job(tenant_id, job_id)
    if job is None:
        raise JobNotFound(id=job_id)
    history = yield from attempts.list_attempts(tenant_id, job_id)
    return job, history


def find(tenant_id: UUID, job_id: int) -> Operation[Found]:
    """Answer one job and the history of its attempts, also where it has been archived.

    Raises:
        JobNotFound: The tenant has no such job, or it is gone.
    """
    # The history first: a job that is archived meanwhile is then found there, whole.
    history = yield from attempts.list_attempts(tenant_id, job_id)
    job = yield from read_rows.show_job(tenant_id, job_id)
    if job is not None:
        return Found(job, history, None)
    archived = yield from archive.show_job(tenant_id, job_id)
    if archived is None:
        raise JobNotFound(id=job_id)
    job, archived_at = archived
    history = yield from archive.list_attempts(job)
    return Found(job, history, archived_at)
