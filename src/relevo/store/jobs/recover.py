"""Take back what nobody works on any more, or nobody can.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import JobState

STATEMENTS: Final = load_statements("relevo.store.jobs", "recover.sql")


def rescue_jobs(
    workers: Sequence[int], keep: float, kept_kinds: Sequence[str]
) -> Operation[list[tuple[UUID, int, JobState, str, str]]]:
    """Answer the jobs taken back from ended sessions: tenant, id, state, queue, kind."""
    params = {"workers": list(workers), "keep": keep, "kept_kinds": list(kept_kinds)}
    rows = yield Call(STATEMENTS["rescue_jobs"], params, needs_transaction=True)
    return [
        (tenant, job_id, JobState(state), queue, kind)
        for tenant, job_id, state, queue, kind in rows
    ]


def postpone_unserved_jobs(queue: str, delay: timedelta, limit: int) -> Operation[dict[str, int]]:
    """Answer how many jobs of each kind that nobody serves were put off."""
    params = {"queue": queue, "delay": delay.total_seconds(), "limit": limit}
    rows = yield Call(STATEMENTS["postpone_unserved_jobs"], params)
    return {row[0]: row[1] for row in rows}


def release_unknown_jobs(
    worker: int, known: Sequence[int], keep: float, kept_kinds: Sequence[str]
) -> Operation[int]:
    """Hand back what this session holds beyond the known ids; answer how many jobs."""
    params = {
        "worker": worker,
        "known": list(known),
        "keep": keep,
        "kept_kinds": list(kept_kinds),
    }
    rows = yield Call(STATEMENTS["release_unknown_jobs"], params)
    return int(rows[0][0])
