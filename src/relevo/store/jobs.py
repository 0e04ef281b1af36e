"""What we say about relevo.jobs, one function per statement.

Each is an operation: it runs on the caller's connection and never commits.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from relevo.db.operation import Call, Operation, Rows
from relevo.db.statements import load_statements
from relevo.model.job import ClaimedJob, Job, JobState, KeyMode, NewJob
from relevo.model.ring import Lane, Round

STATEMENTS: Final = load_statements("relevo.store", "jobs.sql")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The jobs of one kind that wait in one queue.

    Attributes:
        queue: The queue.
        kind: The kind.
        due: How many could run now.
        later: How many wait for their time, retries among them.
        seconds: How long the first of them has been due; 0 where none is.
    """

    queue: str
    kind: str
    due: int
    later: int
    seconds: float


def _keys(job: NewJob) -> dict[str, object]:
    return {mode.value: job.key if job.key_mode is mode else None for mode in KeyMode}


def _common(job: NewJob) -> dict[str, object]:
    return {
        "tenant_id": job.tenant_id,
        "queue": job.queue,
        "kind": job.kind,
        "lane": job.lane,
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
) -> Operation[dict[int, int]]:
    """Answer the ids of the jobs that were created, by place in the input (from 0)."""
    params = {
        **_common(like),
        "key_mode": like.key_mode.value,
        "payloads": list(payloads),
        "aggregate_ids": list(aggregate_ids),
        "keys": list(keys),
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


def claim_jobs(
    worker: int,
    queue: str,
    kinds: Sequence[str],
    *,
    limit: int,
    share: int,
    after: Lane,
    priorities: Sequence[int],
) -> Operation[list[ClaimedJob]]:
    """Answer at most `limit` due jobs of any lane, now held by `worker`, first things first."""
    params = {
        "worker": worker,
        "queue": queue,
        "kinds": list(kinds),
        "limit": limit,
        "share": share,
        "after_tenant": after[0],
        "after_lane": after[1],
        "priorities": list(priorities),
    }
    rows = yield Call(STATEMENTS["claim_jobs"], params)
    return _in_order(rows)


def claim_lanes(
    worker: int, queue: str, kinds: Sequence[str], *, limit: int, begun: Round
) -> Operation[list[ClaimedJob]]:
    """Answer at most `limit` due jobs of remembered lanes, now held by `worker`."""
    params = {
        "worker": worker,
        "queue": queue,
        "kinds": list(kinds),
        "limit": limit,
        "share": begun.share,
        "tenant_ids": [lane[0] for lane, _, _ in begun.probes],
        "lanes": [lane[1] for lane, _, _ in begun.probes],
        "priorities": [priority for _, priority, _ in begun.probes],
        "floors": [floor[0] for _, _, floor in begun.probes],
        "floor_ids": [floor[1] for _, _, floor in begun.probes],
    }
    rows = yield Call(STATEMENTS["claim_lanes"], params)
    return _in_order(rows)


def _in_order(rows: Rows) -> list[ClaimedJob]:
    jobs = [ClaimedJob(*row) for row in rows]
    if len(jobs) > 1:
        jobs.sort(key=lambda job: (job.priority, job.available_at, job.id))
    return jobs


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


def release_unknown_jobs(worker: int, known: Sequence[int]) -> Operation[int]:
    """Hand back what this session holds beyond the known ids; answer how many jobs."""
    params = {"worker": worker, "known": list(known)}
    rows = yield Call(STATEMENTS["release_unknown_jobs"], params)
    return int(rows[0][0])


def prune_jobs(limit: int) -> Operation[int]:
    """Delete at most `limit` finished jobs whose retention is over; answer how many."""
    rows = yield Call(STATEMENTS["prune_jobs"], {"limit": limit})
    return int(rows[0][0])


def list_jobs(
    tenant_id: UUID,
    *,
    queue: str | None,
    kind: str | None,
    state: str | None,
    retrying: bool | None,
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
        "aggregate_id": aggregate_id,
        "before": before,
        "limit": limit,
    }
    rows = yield Call(STATEMENTS["list_jobs"], params)
    return [_read_job(row) for row in rows]


def show_job(tenant_id: UUID, job_id: int) -> Operation[Job | None]:
    """Answer one job, or None where the tenant has no such job."""
    rows = yield Call(STATEMENTS["show_job"], {"tenant_id": tenant_id, "id": job_id})
    return _read_job(rows[0]) if rows else None


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


def cancel_jobs(tenant_id: UUID, kind: str, aggregate_id: str) -> Operation[tuple[int, int]]:
    """Answer how many jobs are cancelled, and how many were asked to stop."""
    params = {"tenant_id": tenant_id, "kind": kind, "aggregate_id": aggregate_id}
    rows = yield Call(STATEMENTS["cancel_jobs"], params, needs_transaction=True)
    return rows[0][0], rows[0][1]


def count_jobs(tenant_id: UUID, aggregate_id: str | None) -> Operation[dict[tuple[str, str], int]]:
    """Answer how many jobs stand where, by queue and state."""
    params = {"tenant_id": tenant_id, "aggregate_id": aggregate_id}
    rows = yield Call(STATEMENTS["count_jobs"], params)
    return {(queue, state): jobs for queue, state, jobs in rows}


def list_waiting() -> Operation[list[Waiting]]:
    """Answer what waits, by queue and kind; only a role that sees every tenant sees all of it."""
    rows = yield Call(STATEMENTS["list_waiting"])
    return [Waiting(*row) for row in rows]


def _read_job(row: tuple[Any, ...]) -> Job:
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
