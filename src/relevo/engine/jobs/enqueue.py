"""Add jobs inside the caller's transaction, and say which job holds a key that was taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.model.job import Enqueued, KeyMode, NewJob
from relevo.store.jobs import enqueue as enqueue_rows

# A holder can finish between the refused insert and the look-up; then the key is free again.
_TRIES: Final = 5


class Enqueuer:
    """Adds jobs that differ in nothing but their payload.

    Args:
        like: A job like all of them, already validated; its payload does not matter.
    """

    def __init__(self, like: NewJob) -> None:
        self.like: Final = like
        self._insert = enqueue_rows.Insert(like)

    def enqueue(self, payload: str) -> Operation[Enqueued]:
        """Add one job, or answer the job that holds its key.

        On commit the job exists and an idle worker is told; on roll-back nothing of it
        remains. A concurrent holder of the key is waited for: if it rolls back, this one
        is created.

        Args:
            payload: JSON text.

        Returns:
            The new job, or the holder with ``created=False``; the id is None where a
            unique index of the application refused the row.
        """
        key = self.like.key
        if key is None:
            job_id = yield from self._insert.run(payload)
            return Enqueued(job_id, created=job_id is not None)
        for _ in range(_TRIES):
            job_id = yield from self._insert.run(payload)
            if job_id is not None:
                return Enqueued(job_id, created=True)
            if (yield from _release_expired(self.like, [key])):
                continue
            holders = yield from _find_holders(self.like, [key])
            if key in holders:
                return Enqueued(holders[key], created=False)
        return Enqueued(None, created=False)


def enqueue_job(job: NewJob) -> Operation[Enqueued]:
    """Add one job, or answer the job that holds its key, as `Enqueuer.enqueue` does."""
    return Enqueuer(job).enqueue(job.payload)


def enqueue_jobs(
    like: NewJob,
    payloads: Sequence[str],
    *,
    aggregate_ids: Sequence[str | None] | None = None,
    keys: Sequence[str | None] | None = None,
    lane_keys: Sequence[str | None] | None = None,
    lanes: Sequence[UUID] | None = None,
) -> Operation[list[Enqueued]]:
    """Add many jobs of one kind and tenant in one statement, then wake a worker once.

    Args:
        like: What all of them have in common, its key left out.
        payloads: JSON text of each.
        aggregate_ids: The aggregate of each, as long as `payloads`; None takes it from `like`.
        keys: The key of each or None, as long as `payloads`; None where no job has one.
        lane_keys: What the lane of each is named after; None takes it from `like`.
        lanes: The lane of each, where `lane_keys` are given.

    Returns:
        What became of each, in the order of the input.
    """
    if not payloads:
        return []
    wanted = sorted({key for key in keys or () if key is not None})
    if wanted and like.key_for is not None:
        # Where keys expire some usually have; the others are looked at when they are refused.
        yield from _release_expired(like, wanted)
    ids = yield from enqueue_rows.insert_jobs(
        like,
        payloads,
        aggregate_ids=aggregate_ids,
        keys=keys if wanted else None,
        lane_keys=lane_keys,
        lanes=lanes,
    )
    yield from enqueue_rows.wake_workers(like.queue)
    answers = [Enqueued(job_id, created=job_id is not None) for job_id in ids]
    if keys is None or None not in ids:
        return answers
    refused = {place: key for place, key in enumerate(keys) if key and ids[place] is None}
    holders: Mapping[str, int] = {}
    if refused:
        names = sorted(set(refused.values()))
        yield from _release_expired(like, names)
        holders = yield from _find_holders(like, names)
    for place, key in refused.items():
        if key in holders:
            answers[place] = Enqueued(holders[key], created=False)
            continue
        job = replace(
            like,
            payload=payloads[place],
            aggregate_id=like.aggregate_id if aggregate_ids is None else aggregate_ids[place],
            key=key,
            lane=lanes[place] if lanes else like.lane,
            lane_key=lane_keys[place] if lane_keys else like.lane_key,
        )
        answers[place] = yield from enqueue_job(job)
    return answers


def _release_expired(job: NewJob, keys: Sequence[str]) -> Operation[bool]:
    if job.key_mode is not KeyMode.ALWAYS:
        return False
    released = yield from enqueue_rows.release_expired_keys(job.tenant_id, job.kind, keys)
    return released


def _find_holders(job: NewJob, keys: Sequence[str]) -> Operation[Mapping[str, int]]:
    holders = yield from enqueue_rows.find_key_holders(job.tenant_id, job.kind, keys, job.key_mode)
    return holders


def wake(queue: str) -> Operation[bool]:
    """Tell the idle workers of a queue that something is due, when the transaction commits.

    For jobs that were inserted by SQL of your own; `enqueue_job` does it by itself.
    Answer whether somebody wanted to be told; nobody else needs to be, busy workers
    look by themselves.
    """
    told = yield from enqueue_rows.wake_workers(queue)
    return told
