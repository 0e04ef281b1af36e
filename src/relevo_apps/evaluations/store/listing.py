"""What is asked to list cycles, and to say why nothing goes out."""

from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.listing import CycleLine, Pause
from relevo_apps.evaluations.store.cycles import as_cycle

SQL = load_statements("relevo_apps.evaluations.store", "listing.sql")


def list_cycles(tenant_id: UUID, limit: int) -> Operation[tuple[CycleLine, ...]]:
    """Read the newest cycles of a tenant."""
    rows = yield Call(SQL["list_cycles"], {"tenant_id": tenant_id, "limit": limit})
    return tuple(CycleLine(as_cycle(row), row[9], row[10]) for row in rows)


def read_pause(queue: str) -> Operation[Pause | None]:
    """Read why a queue rests; None when it does not."""
    rows = yield Call(SQL["read_pause"], {"queue": queue})
    return Pause(rows[0][0], rows[0][1] or "") if rows else None
