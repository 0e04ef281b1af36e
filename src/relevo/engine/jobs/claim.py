"""Claim due jobs of one queue: rounds over remembered lanes, and now and then a sweep."""

import time
from collections.abc import Sequence

from relevo.db.operation import Operation
from relevo.model.job import ClaimedJob
from relevo.model.ring import Ring
from relevo.store.jobs import claim as claim_rows


def claim(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    """Claim at most `limit` due jobs.

    Each claim is one statement: it picks, marks and counts the attempt together. Where
    one does not fill the slots another follows, at most two.

    Args:
        worker: The session that will hold the jobs.
        queue: The queue to claim from.
        kinds: The kinds that the worker can run; others are left alone.
        limit: The number of free slots.
        ring: The worker's memory of this queue.
    """
    found: list[ClaimedJob] = []
    if not ring.sweep_in(time.monotonic()):
        found = yield from _sweep(worker, queue, kinds, limit, ring)
        if not found:
            return []
    if len(found) < limit:
        found = found + (yield from _round(worker, queue, kinds, limit - len(found), ring))
    return found


def _round(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    begun = ring.begin_round(limit)
    if begun is None:
        return []
    found = yield from claim_rows.claim_lanes(worker, queue, kinds, limit=limit, begun=begun)
    ring.end_round(begun, limit, found)
    return found


def _sweep(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    begun_at = time.monotonic()
    found = yield from claim_rows.claim_jobs(
        worker,
        queue,
        kinds,
        limit=limit,
        # A part of the slots for each lane, so that one sweep meets several.
        share=max(1, limit // 8),
        after=ring.cursor,
        priorities=ring.priorities(),
    )
    now = time.monotonic()
    ring.end_sweep(limit, found, now, now - begun_at)
    return found
