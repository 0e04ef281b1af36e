"""What is asked to list cycles, and to say why nothing goes out."""

from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.cycles import Cycle, CycleState, Relation
from relevo_apps.evaluations.model.listing import CycleLine, Pause

SQL = load_statements("relevo_apps.evaluations.store", "listing.sql")


def list_cycles(tenant_id: UUID, limit: int) -> Operation[tuple[CycleLine, ...]]:
    """Read the newest cycles of a tenant."""
    rows = yield Call(SQL["list_cycles"], {"tenant_id": tenant_id, "limit": limit})
    return tuple(
        CycleLine(
            cycle=Cycle(
                id=row[0],
                name=row[1],
                state=CycleState(row[2]),
                rules=tuple(Relation(rule) for rule in row[3]),
                due_on=row[4],
                created_by=row[5],
                activated_at=row[6],
                activated_by=row[7],
                hold_until=row[8],
            ),
            participants=row[9],
            evaluations=row[10],
        )
        for row in rows
    )


def read_pause(queue: str) -> Operation[Pause | None]:
    """Read why a queue rests; None when it does not."""
    rows = yield Call(SQL["read_pause"], {"queue": queue})
    return Pause(rows[0][0], rows[0][1] or "") if rows else None
