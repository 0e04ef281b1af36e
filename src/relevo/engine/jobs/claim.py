"""Claim due jobs of one queue: rounds over remembered lanes, and now and then a sweep.

A queue under limits is claimed from in the same way by statements of its own: the sweep
finds lanes, the round takes jobs and permits together.
"""

import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Operation
from relevo.engine.limits import look_at_limits
from relevo.model.ids import NO_LANE
from relevo.model.job import ClaimedJob
from relevo.model.lanes import Lane
from relevo.model.ring import LIMITED_LANES, Ring
from relevo.store.jobs import claim as claim_rows
from relevo.store.jobs import lanes as lane_rows
from relevo.store.jobs import limited as limited_rows
from relevo.store.jobs import walk as walk_rows

MOVED_AT_ONCE: Final = 1000

find_due_queues = walk_rows.find_due_queues


def claim(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    """Claim at most `limit` due jobs, none that a limit does not let start.

    Each claim is one statement: it picks, marks and counts the attempt together. Where
    one does not fill the slots another follows, at most two.

    Args:
        worker: The session that will hold the jobs.
        queue: The queue to claim from.
        kinds: The kinds that the worker can run; others are left alone.
        limit: The number of free slots.
        ring: The worker's memory of this queue.
    """
    found = yield from _claim_known(worker, queue, kinds, limit, ring)
    if (found and not ring.is_limited) or not ring.is_look_due(time.monotonic()):
        return found
    # Nothing came where something may wait: the statements let nothing start that a limit
    # concerns of which the worker does not know.
    was_limited = ring.is_limited
    is_limited, _ = yield from look_at_limits(queue, kinds)
    ring.end_look(time.monotonic(), is_limited=is_limited)
    if found or is_limited == was_limited:
        return found
    ring.rest()
    return (yield from _claim_known(worker, queue, kinds, limit, ring))


def _claim_known(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    if ring.is_limited:
        return (yield from _claim_limited(worker, queue, kinds, limit, ring))
    found: list[ClaimedJob] = []
    has_news = ring.take_news()
    if has_news:
        # Whoever waits for this one job shall not wait for a sweep as well: that comes next.
        found = yield from _round(worker, queue, kinds, limit, ring)
        if found:
            return found
    if not ring.sweep_in(time.monotonic()):
        goes_on = ring.is_walking
        found = yield from _sweep(worker, queue, kinds, limit, ring)
        if not (found or goes_on or ring.is_walking):
            return []
    if len(found) < limit and not has_news:
        found = found + (yield from _round(worker, queue, kinds, limit - len(found), ring))
    return found


def _claim_limited(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    begun_at = time.monotonic()
    if walks := not ring.sweep_in(begun_at):
        yield from _walk(queue, kinds, ring)
    begun = ring.begin_round(limit)
    if begun is None:
        return []
    round_at = time.monotonic()
    found = yield from limited_rows.claim_limited(worker, queue, kinds, limit=limit, begun=begun)
    now = time.monotonic()
    ring.end_round(begun, limit, found, None if walks else now - round_at)
    if walks:
        ring.add_cost(now, now - round_at, len(found))
    return found


def _walk(queue: str, kinds: Sequence[str], ring: Ring) -> Operation[None]:
    tenants = yield from _step(queue, kinds, ring)
    begun_at = time.monotonic()
    if not (tenants and ring.is_move_due(begun_at)):
        return
    moved = yield from lane_rows.move_to_lanes(queue, tenants, MOVED_AT_ONCE)
    now = time.monotonic()
    ring.end_move(now, now - begun_at, moved)
    if moved and not ring.is_walking:
        # They are due in lanes that this worker does not know yet.
        yield from _step(queue, kinds, ring)


def _step(queue: str, kinds: Sequence[str], ring: Ring) -> Operation[list[UUID]]:
    """Make a step of the walk; answer whose jobs without a lane of their kind are due."""
    begun_at = time.monotonic()
    after, known = ring.cursor, ring.known_lanes()
    lanes = yield from walk_rows.find_lanes(
        queue,
        kinds,
        after=after,
        known=known,
        known_kinds=[ring.kind_of(lane) for lane in known],
        priorities=ring.priorities(),
        lanes=LIMITED_LANES,
    )
    now = time.monotonic()
    ring.end_walk(lanes, LIMITED_LANES, now, now - begun_at)
    if len(lanes) < LIMITED_LANES:
        yield from _find_stop(queue, after, known, ring)
    return [due.lane[0] for due in lanes if due.lane[1] == NO_LANE]


def _round(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    begun = ring.begin_round(limit)
    if begun is None:
        return []
    begun_at = time.monotonic()
    found = yield from claim_rows.claim_lanes(worker, queue, kinds, limit=limit, begun=begun)
    ring.end_round(begun, limit, found, time.monotonic() - begun_at)
    return found


def _sweep(
    worker: int, queue: str, kinds: Sequence[str], limit: int, ring: Ring
) -> Operation[list[ClaimedJob]]:
    begun_at = time.monotonic()
    # A part of the slots for each lane, so that one sweep meets several.
    share = max(1, limit // 8)
    after, known = ring.cursor, ring.known_lanes()
    found = yield from claim_rows.claim_jobs(
        worker,
        queue,
        kinds,
        limit=limit,
        share=share,
        after=after,
        known=known,
        priorities=ring.priorities(),
    )
    now = time.monotonic()
    ring.end_sweep(limit, found, now, now - begun_at, share)
    if len(found) < limit:
        yield from _find_stop(queue, after, known, ring)
    return found


def _find_stop(queue: str, after: Lane, known: Sequence[Lane], ring: Ring) -> Operation[None]:
    """Say where a short step stopped: at the last lane, or where it had met enough of them."""
    if ring.asks_where():
        begun_at = time.monotonic()
        ring.end_skip((yield from walk_rows.skip_lanes(queue, after, known)))
        now = time.monotonic()
        ring.add_cost(now, now - begun_at)
