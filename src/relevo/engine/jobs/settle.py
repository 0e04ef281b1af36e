"""End attempts: fenced by tenant, id, attempt and session, many in one statement."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.model.job import JobState
from relevo.model.scope import Scope
from relevo.model.settlement import Action, Settlement
from relevo.store import pauses
from relevo.store.jobs import settle as settle_rows

_Settled = dict[tuple[UUID, int], JobState]

PAUSED_BY: Final = "relevo"


def settle(
    worker: int, queue_of: dict[int, str], batch: Sequence[Settlement]
) -> Operation[_Settled]:
    """Write what became of a batch of jobs that this session holds.

    Args:
        worker: The session that claimed them.
        queue_of: The queue of each job by id, for the pauses that outages ask for.
        batch: What was decided, at most one entry a job.

    Returns:
        Where each job stands now. A job that is missing was lost: somebody else holds
        or has ended it, and nothing was changed.
    """
    # Before the jobs go back: otherwise they would be claimed again at once.
    for queue, (pause, reason) in _pauses(queue_of, batch).items():
        yield from pauses.pause(Scope.QUEUE, queue, pause, reason, PAUSED_BY)
    # In the order in which everybody locks jobs, not in that in which they ended.
    batch = sorted(batch, key=lambda entry: (entry.tenant_id, entry.job_id))
    settled: _Settled = {}
    done = [entry for entry in batch if entry.action is Action.COMPLETED]
    if done:
        held = yield from _complete(worker, done)
        settled.update(dict.fromkeys(held, JobState.COMPLETED))
    others = [entry for entry in batch if entry.action is not Action.COMPLETED]
    if others:
        settled.update((yield from _settle_others(worker, others)))
    return settled


def complete(worker: int, settlement: Settlement) -> Operation[bool]:
    """Complete one job inside the handler's own transaction; answer whether it was still ours."""
    held = yield from _complete(worker, [settlement])
    return bool(held)


def _complete(worker: int, done: Sequence[Settlement]) -> Operation[set[tuple[UUID, int]]]:
    held = yield from settle_rows.complete_jobs(
        worker,
        tenant_ids=[entry.tenant_id for entry in done],
        ids=[entry.job_id for entry in done],
        attempts=[entry.attempt for entry in done],
        results=[entry.result for entry in done],
        errors=[entry.error for entry in done],
        keeps=[entry.keep for entry in done],
    )
    return held


def _settle_others(worker: int, others: Sequence[Settlement]) -> Operation[_Settled]:
    params: dict[str, object] = {
        "tenant_ids": [entry.tenant_id for entry in others],
        "ids": [entry.job_id for entry in others],
        "attempts": [entry.attempt for entry in others],
        "actions": [entry.action.value for entry in others],
        "delays": [entry.delay.total_seconds() for entry in others],
        "errors": [entry.error for entry in others],
        "traces": [entry.trace for entry in others],
        "keeps": [entry.keep for entry in others],
    }
    settled = yield from settle_rows.settle_jobs(worker, params)
    return settled


def _pauses(
    queue_of: dict[int, str], batch: Sequence[Settlement]
) -> dict[str, tuple[timedelta, str]]:
    longest: dict[str, tuple[timedelta, str]] = {}
    for entry in batch:
        if entry.pause is not None:
            queue = queue_of[entry.job_id]
            asked = (entry.pause, entry.error or "outage")
            longest[queue] = max(longest.get(queue, asked), asked)
    return longest
