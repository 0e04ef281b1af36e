"""Find where something is due: in which queues, in which lanes of one, and where a walk stops.

Each function is an operation: it runs on the caller's connection and only reads.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.lanes import DueLane, Lane

VISITS: Final = 2000
"""A step of a walk meets at most so many lanes, so that none takes long, however many there are."""

_LAST: Final = UUID(int=2**128 - 1)

STATEMENTS: Final = load_statements("relevo.store.jobs", "walk.sql")


def find_due_queues(queues: Sequence[str], kinds: Sequence[str]) -> Operation[list[str]]:
    """Answer the queues in which something is due that nobody holds."""
    params = {"queues": list(queues), "kinds": list(kinds)}
    rows = yield Call(STATEMENTS["find_due_queues"], params)
    return [row[0] for row in rows]


def find_lanes(
    queue: str,
    kinds: Sequence[str],
    *,
    after: Lane,
    known: Sequence[Lane] = (),
    known_kinds: Sequence[str | None] = (),
    priorities: Sequence[int],
    lanes: int,
) -> Operation[list[DueLane]]:
    """Answer at most so many lanes that have something due, in order."""
    params = {
        "queue": queue,
        "kinds": list(kinds),
        "priorities": list(priorities),
        "lanes": lanes,
        "known_kinds": list(known_kinds),
        **walk_params(after, known),
    }
    rows = yield Call(STATEMENTS["find_lanes"], params)
    return [
        DueLane((tenant_id, lane), kind, priority, (available_at, id_))
        for tenant_id, lane, kind, priority, available_at, id_ in rows
    ]


def skip_lanes(queue: str, after: Lane, known: Sequence[Lane] = ()) -> Operation[Lane | None]:
    """Answer where a step from this lane on stops; None where it meets the last lane before."""
    params = {"queue": queue, **walk_params(after, known)}
    rows = yield Call(STATEMENTS["skip_lanes"], params)
    return (rows[0][0], rows[0][1]) if rows else None


def walk_params(after: Lane, known: Sequence[Lane]) -> dict[str, object]:
    """Answer the parameters of a walk: known lanes in order, behind them one that nobody has."""
    return {
        "after_tenant": after[0],
        "after_lane": after[1],
        "known_tenants": [*(tenant_id for tenant_id, _ in known), _LAST],
        "known_lanes": [*(lane for _, lane in known), _LAST],
        "visits": VISITS,
    }
