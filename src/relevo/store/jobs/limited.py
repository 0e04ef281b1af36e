"""Take due jobs of a queue under limits: which lanes have some, and the claim with its permits.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import ClaimedJob
from relevo.model.ring import DueLane, Lane, Round
from relevo.store.jobs.claim import PRIORITY_COUNT, in_order, walk_params

STATEMENTS: Final = load_statements("relevo.store.jobs", "limited.sql")


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


def claim_limited(
    worker: int, queue: str, kinds: Sequence[str], *, limit: int, begun: Round
) -> Operation[list[ClaimedJob]]:
    """Answer at most `limit` due jobs that every limit lets start, now held by `worker`."""
    params = {
        "worker": worker,
        "queue": queue,
        "kinds": list(kinds),
        "limit": limit,
        "shares": list(begun.shares),
        "tenant_ids": [tenant_id for tenant_id, _ in begun.lanes],
        "lanes": [lane for _, lane in begun.lanes],
        "lane_kinds": list(begun.kinds),
        "priorities": [priority for _, priority, _ in begun.probes[:PRIORITY_COUNT]],
        "floors": [floor[0] for _, _, floor in begun.probes],
        "floor_ids": [floor[1] for _, _, floor in begun.probes],
    }
    rows = yield Call(STATEMENTS["claim_limited"], params)
    return in_order(rows)


def move_to_lanes(queue: str, tenant_ids: Sequence[UUID], limit: int) -> Operation[int]:
    """Give due jobs of limited kinds their lanes; answer how many had none."""
    # No tenant's flood keeps the others from being moved.
    share = -(-limit // max(1, len(tenant_ids)))
    params = {"queue": queue, "tenant_ids": list(tenant_ids), "limit": limit, "share": share}
    rows = yield Call(STATEMENTS["move_to_lanes"], params)
    return int(rows[0][0])
