"""End attempts, fenced by tenant, id, attempt and session.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import JobState

STATEMENTS: Final = load_statements("relevo.store.jobs", "settle.sql")


def complete_jobs(
    worker: int,
    *,
    tenant_ids: Sequence[UUID],
    ids: Sequence[int],
    attempts: Sequence[int],
    results: Sequence[str | None],
    errors: Sequence[str | None],
    keeps: Sequence[float | None],
) -> Operation[set[tuple[UUID, int]]]:
    """Answer which of the jobs were still held by this attempt and are now completed."""
    params = {
        "worker": worker,
        "tenant_ids": tenant_ids,
        "ids": ids,
        "attempts": attempts,
        "results": results,
        "errors": errors,
        "keeps": keeps,
    }
    rows = yield Call(STATEMENTS["complete_jobs"], params)
    return {(row[0], row[1]) for row in rows}


def settle_jobs(
    worker: int, params: dict[str, object]
) -> Operation[dict[tuple[UUID, int], JobState]]:
    """Answer where each of the jobs stands now; those that were lost are missing."""
    rows = yield Call(STATEMENTS["settle_jobs"], {"worker": worker, **params})
    return {(tenant_id, job_id): JobState(state) for tenant_id, job_id, state in rows}
