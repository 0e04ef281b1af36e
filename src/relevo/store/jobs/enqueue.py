"""Add jobs, and the keys that refuse a second one.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import KeyMode, NewJob

STATEMENTS: Final = load_statements("relevo.store.jobs", "enqueue.sql")
_INSERT_JOB: Final = STATEMENTS["insert_job"]


class Insert:
    """The INSERT of jobs that differ in nothing but their payload.

    Everything else is put together once, so that one more job costs little.

    Args:
        like: A job like all of them; its payload does not matter.
    """

    def __init__(self, like: NewJob) -> None:
        self._params = {**_common(like), **_keys(like), "aggregate_id": like.aggregate_id}
        self._is_keyed = like.key is not None

    def run(self, payload: str) -> Operation[int | None]:
        """Answer the new job's id, or None where a unique index refused it."""
        params = {**self._params, "payload": payload}
        rows = yield Call(_INSERT_JOB, params, needs_transaction=self._is_keyed)
        return rows[0][0] if rows else None


def _keys(job: NewJob) -> dict[str, object]:
    return {mode.value: job.key if job.key_mode is mode else None for mode in KeyMode}


def _common(job: NewJob) -> dict[str, object]:
    return {
        "tenant_id": job.tenant_id,
        "queue": job.queue,
        "kind": job.kind,
        "lane": job.lane,
        "lane_key": job.lane_key,
        "priority": job.priority,
        "available_at": job.available_at,
        "delay": job.delay.total_seconds(),
        "max_attempts": job.max_attempts,
        "key_for": None if job.key_for is None else job.key_for.total_seconds(),
        "actor": job.actor,
        "headers": job.headers,
    }


def insert_jobs(
    like: NewJob,
    payloads: Sequence[str],
    *,
    aggregate_ids: Sequence[str | None] | None = None,
    keys: Sequence[str | None] | None = None,
    lane_keys: Sequence[str | None] | None = None,
    lanes: Sequence[UUID] | None = None,
) -> Operation[list[int | None]]:
    """Answer the id of each job in the order of the input, None where it was refused.

    What no sequence is given for is as `like` has it; but its key is not taken.
    """
    params = {
        **_common(like),
        "aggregate_id": like.aggregate_id if aggregate_ids is None else None,
        "key_mode": like.key_mode.value,
        "payloads": list(payloads),
        "aggregate_ids": None if aggregate_ids is None else list(aggregate_ids),
        "keys": None if keys is None else list(keys),
        "lane_keys": None if lane_keys is None else list(lane_keys),
        "lanes": None if lanes is None else list(lanes),
    }
    rows = yield Call(STATEMENTS["insert_jobs"], params, needs_transaction=True)
    ids: list[int | None] = [None] * len(payloads)
    for place, job_id in rows:
        ids[place - 1] = job_id
    return ids


def wake_workers(queue: str) -> Operation[bool]:
    """Answer whether an idle worker was told that something is due."""
    rows = yield Call(STATEMENTS["wake_workers"], {"queue": queue})
    return bool(rows)


def release_expired_keys(tenant_id: UUID, kind: str, keys: Sequence[str]) -> Operation[bool]:
    """Free the keys whose time is over; answer whether there were any."""
    params = {"tenant_id": tenant_id, "kind": kind, "keys": list(keys)}
    rows = yield Call(STATEMENTS["release_expired_keys"], params, needs_transaction=True)
    return bool(rows)


def find_key_holders(
    tenant_id: UUID, kind: str, keys: Sequence[str], mode: KeyMode
) -> Operation[dict[str, int]]:
    """Answer which job holds each of the keys now."""
    params = {"tenant_id": tenant_id, "kind": kind, "keys": list(keys), "key_mode": mode.value}
    rows = yield Call(STATEMENTS["find_key_holders"], params)
    return {row[0]: row[1] for row in rows}
