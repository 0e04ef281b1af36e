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


def insert_job(job: NewJob) -> Operation[int | None]:
    """Answer the new job's id, or None where a unique index refused it."""
    params = {
        **_common(job),
        **_keys(job),
        "aggregate_id": job.aggregate_id,
        "payload": job.payload,
    }
    rows = yield Call(STATEMENTS["insert_job"], params, needs_transaction=job.key is not None)
    return rows[0][0] if rows else None


def insert_jobs(
    like: NewJob,
    payloads: Sequence[str],
    aggregate_ids: Sequence[str | None],
    keys: Sequence[str | None],
    *,
    lane_keys: Sequence[str | None] | None = None,
    lanes: Sequence[UUID] | None = None,
) -> Operation[dict[int, int]]:
    """Answer the ids of the jobs that were created, by place in the input (from 0)."""
    params = {
        **_common(like),
        "key_mode": like.key_mode.value,
        "payloads": list(payloads),
        "aggregate_ids": list(aggregate_ids),
        "keys": list(keys),
        "lane_keys": None if lane_keys is None else list(lane_keys),
        "lanes": None if lanes is None else list(lanes),
    }
    rows = yield Call(STATEMENTS["insert_jobs"], params, needs_transaction=True)
    return {place - 1: job_id for place, job_id in rows}


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
