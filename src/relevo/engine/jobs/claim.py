"""Claim due jobs of one queue, tenant after tenant."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.model.ids import NO_LANE
from relevo.model.job import ClaimedJob
from relevo.store import jobs


@dataclass(frozen=True, slots=True)
class Cursor:
    """The tenant and lane after which the next claim begins its walk."""

    tenant_id: UUID = NO_LANE
    lane: UUID = NO_LANE


START: Final = Cursor()


def claim(
    worker: int, queue: str, kinds: Sequence[str], limit: int, cursor: Cursor
) -> Operation[tuple[list[ClaimedJob], Cursor]]:
    """Claim at most `limit` due jobs, and say where the next claim should begin.

    The claim is one statement: it picks, marks and counts the attempt together. A walk
    that reached the end of the ring before it was full begins once more from its start.

    Args:
        worker: The session that will hold the jobs.
        queue: The queue to claim from.
        kinds: The kinds that the worker can run; others are left alone.
        limit: The number of free slots.
        cursor: Where the last claim of this queue ended.
    """
    found = yield from jobs.claim_jobs(worker, queue, kinds, limit, (cursor.tenant_id, cursor.lane))
    last = found
    if len(found) < limit and cursor != START:
        rest = limit - len(found)
        last = yield from jobs.claim_jobs(worker, queue, kinds, rest, (START.tenant_id, START.lane))
        found = found + last
    if len(found) < limit:
        return found, START
    # The walk's last step: where it came round, that is not the highest of all.
    tenant_id, lane = max((job.tenant_id, job.lane) for job in last)
    return found, Cursor(tenant_id, lane)
