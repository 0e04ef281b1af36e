"""Keep what an activation cost, beside what it did."""

from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.store import cycles as cycle_rows


def record_cost(
    tenant_id: UUID, cycle_id: UUID, *, statements: int, seconds: float, actor: str
) -> Operation[None]:
    """Record how many statements an activation took and how long, after it committed.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The cycle.
        statements: How many the caller counted between BEGIN and COMMIT.
        seconds: From BEGIN to after COMMIT.
        actor: Who measured.
    """
    details = {"statements": statements, "seconds": round(seconds, 3)}
    yield from cycle_rows.insert_cycle_event(
        tenant_id, cycle_id, "activation_measured", actor, details
    )
