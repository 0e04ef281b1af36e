"""Rings for tests: lanes, what they gave, and what is asked next."""

from datetime import UTC, datetime
from uuid import UUID

from factories import KIND, a_claim
from relevo.model.ids import NO_LANE, lane_of
from relevo.model.job import ClaimedJob
from relevo.model.lanes import DueLane, Lane, Round
from relevo.model.ring import PRIORITIES, Ring

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE_ALL = (datetime(1, 1, 1, tzinfo=UTC), 0)


def lane(number: int, key: str | None = None) -> Lane:
    return UUID(int=number), NO_LANE if key is None else lane_of(KIND, key)


def job(whose: Lane, job_id: int = 1, **fields: object) -> ClaimedJob:
    given = {
        "tenant_id": whose[0],
        "lane": whose[1],
        "id": job_id,
        "available_at": NOON,
        "started_at": NOON,
    }
    return a_claim(**{**given, **fields})


def due(whose: Lane, kind: str | None = None, priority: int = 1, number: int = 1) -> DueLane:
    return DueLane(whose, kind, priority, (NOON, number))


def swept(
    ring: Ring, *jobs: ClaimedJob, limit: int = 1000, now: float = 0.0, **more: float
) -> None:
    ring.end_sweep(limit, jobs, now, more.pop("cost", 0.0), **more)


def limited(ring: Ring) -> Ring:
    ring.end_look(0.0, is_limited=True)
    return ring


def begun(ring: Ring, limit: int = 100) -> Round:
    found = ring.begin_round(limit)
    assert found is not None
    return found


def floors(found: Round, whose: Lane) -> list[tuple[datetime, int]]:
    """The floors of a lane, by priority."""
    by_priority = {priority: floor for each, priority, floor in found.probes if each == whose}
    return [by_priority[priority] for priority in PRIORITIES]
