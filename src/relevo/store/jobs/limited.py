"""Take due jobs of a queue under limits, each with its permits.

It is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import ClaimedJob
from relevo.model.lanes import Round
from relevo.store.jobs.claim import PRIORITY_COUNT, in_order

STATEMENTS: Final = load_statements("relevo.store.jobs", "limited.sql")


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
