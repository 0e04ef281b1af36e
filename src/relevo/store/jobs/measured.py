"""Rows that exist to be measured and are removed afterwards.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store.jobs", "measured.sql")


def take_job_id() -> Operation[int]:
    """Take an id that no job has; every job added later has a higher one."""
    rows = yield Call(STATEMENTS["take_job_id"])
    return int(rows[0][0])


def count_unfinished_jobs(tenant_id: UUID, queue: str) -> Operation[int]:
    """Answer how many jobs of a queue are not done yet."""
    params = {"tenant_id": tenant_id, "queue": queue}
    rows = yield Call(STATEMENTS["count_unfinished_jobs"], params)
    return int(rows[0][0])


def erase_jobs(
    tenant_id: UUID, queue: str, kind: str, *, first: int, limit: int
) -> Operation[int | None]:
    """Delete at most `limit` jobs from the id `first` on.

    Returns:
        The last id that was deleted, or None where there was nothing to delete.
    """
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "kind": kind,
        "first": first,
        "limit": limit,
    }
    rows = yield Call(STATEMENTS["erase_jobs"], params)
    last: int | None = rows[0][0]
    return last
