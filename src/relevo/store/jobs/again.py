"""Let jobs start again, and take back those that are not wanted.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import JobState

STATEMENTS: Final = load_statements("relevo.store.jobs", "again.sql")


def lock_job(tenant_id: UUID, job_id: int) -> Operation[tuple[JobState, int, str, bool] | None]:
    """Answer state, attempt, kind and whether another job holds the live key."""
    params = {"tenant_id": tenant_id, "id": job_id}
    rows = yield Call(STATEMENTS["lock_job"], params, needs_transaction=True)
    if not rows:
        return None
    state, attempt, kind, key_is_held = rows[0]
    return JobState(state), attempt, kind, key_is_held


def requeue_jobs(
    tenant_id: UUID, ids: Sequence[int], *, delay: timedelta, actor: str | None, queue: str | None
) -> Operation[dict[int, str]]:
    """Answer the queues of the jobs that are to start again, by id."""
    params = {
        "tenant_id": tenant_id,
        "ids": list(ids),
        "delay": delay.total_seconds(),
        "actor": actor,
        "queue": queue,
    }
    rows = yield Call(STATEMENTS["requeue_jobs"], params, needs_transaction=True)
    return {row[0]: row[1] for row in rows}


def cancel_jobs(
    tenant_id: UUID, kind: str, aggregate_id: str, keep: float | None
) -> Operation[tuple[int, int]]:
    """Answer how many jobs are cancelled, and how many were asked to stop."""
    params = {"tenant_id": tenant_id, "kind": kind, "aggregate_id": aggregate_id, "keep": keep}
    rows = yield Call(STATEMENTS["cancel_jobs"], params, needs_transaction=True)
    return rows[0][0], rows[0][1]
