"""Take finished jobs whose time is over out of the table.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store.jobs", "prune.sql")


class Place(NamedTuple):
    """How far a pruner came: tenant by tenant, in each from the job that was due to go first."""

    tenant_id: UUID
    prune_at: datetime | None


BEGINNING: Final = Place(UUID(int=0), None)


def prune_jobs(limit: int, after: Place) -> Operation[list[tuple[Place, bool]]]:
    """Take out at most `limit` jobs; answer the place of each, and whether it was archived."""
    yield Call(STATEMENTS["know_archive"], needs_transaction=True)
    params = {"limit": limit, "after_tenant": after.tenant_id, "after": after.prune_at}
    rows = yield Call(STATEMENTS["prune_jobs"], params)
    return [(Place(tenant_id, prune_at), archived) for tenant_id, prune_at, archived in rows]


def count_overdue_jobs(late: float, most: int) -> Operation[int]:
    """Count jobs that should have gone so many seconds ago, at most up to `most`."""
    rows = yield Call(STATEMENTS["count_overdue_jobs"], {"late": late, "most": most})
    return int(rows[0][0])
