"""Read jobs for people and tools.

Each function is an operation: it runs on the caller's connection and never commits.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import Job, JobState

STATEMENTS: Final = load_statements("relevo.store.jobs", "read.sql")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The jobs of one kind that wait in one queue.

    Attributes:
        queue: The queue.
        kind: The kind.
        due: How many could run now.
        later: How many wait for their time, retries among them.
        soon: How many of these are due within the time that was asked for.
        seconds: How long the first of them has been due; 0 where none is.
        age: How long it is since the first of those due or soon was made, started or requeued.
    """

    queue: str
    kind: str
    due: int
    later: int
    soon: int
    seconds: float
    age: float


def list_jobs(
    tenant_id: UUID,
    *,
    queue: str | None,
    kind: str | None,
    state: str | None,
    retrying: bool | None,
    due: bool | None,
    aggregate_id: str | None,
    before: int | None,
    limit: int,
) -> Operation[list[Job]]:
    """Answer one page of jobs, newest first."""
    params = {
        "tenant_id": tenant_id,
        "queue": queue,
        "kind": kind,
        "state": state,
        "retrying": retrying,
        "due": due,
        "aggregate_id": aggregate_id,
        "before": before,
        "limit": limit,
    }
    rows = yield Call(STATEMENTS["list_jobs"], params)
    return [read_job(row) for row in rows]


def show_job(tenant_id: UUID, job_id: int) -> Operation[Job | None]:
    """Answer one job, or None where the tenant has no such job."""
    rows = yield Call(STATEMENTS["show_job"], {"tenant_id": tenant_id, "id": job_id})
    return read_job(rows[0]) if rows else None


def count_jobs(tenant_id: UUID, aggregate_id: str | None) -> Operation[dict[tuple[str, str], int]]:
    """Answer how many jobs stand where, by queue and state."""
    params = {"tenant_id": tenant_id, "aggregate_id": aggregate_id}
    rows = yield Call(STATEMENTS["count_jobs"], params)
    return {(queue, state): jobs for queue, state, jobs in rows}


def list_waiting(soon: timedelta) -> Operation[list[Waiting]]:
    """Answer what waits, by queue and kind; only a role that sees every tenant sees all of it."""
    rows = yield Call(STATEMENTS["list_waiting"], {"soon": soon.total_seconds()})
    return [Waiting(*row) for row in rows]


def read_job(row: tuple[Any, ...]) -> Job:
    """Make a job of the columns that `show_job` answers."""
    values = list(row)
    values[4] = JobState(values[4])
    values[-2] = _read_json(values[-2])
    values[-1] = None if values[-1] is None else _read_json(values[-1])
    return Job(*values)


def _read_json(text: str) -> object:
    try:
        return json.loads(text)
    except (RecursionError, ValueError):
        # Nested deeper, or a number longer, than Python reads: one row must not hide its page.
        return text
