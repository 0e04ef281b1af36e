"""Give jobs the lane of their kind.

It is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store.jobs", "lanes.sql")


def move_to_lanes(queue: str, tenant_ids: Sequence[UUID], limit: int) -> Operation[int]:
    """Give due jobs of limited kinds their lanes; answer how many had none."""
    # No tenant's flood keeps the others from being moved.
    share = -(-limit // max(1, len(tenant_ids)))
    params = {"queue": queue, "tenant_ids": list(tenant_ids), "limit": limit, "share": share}
    rows = yield Call(STATEMENTS["move_to_lanes"], params)
    return int(rows[0][0])
