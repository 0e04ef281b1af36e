"""What is asked to show how far a cycle is."""

from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.cycles import EvaluationState
from relevo_apps.evaluations.model.reports import Notification, NotificationCounts

SQL = load_statements("relevo_apps.evaluations.store", "status.sql")


def count_participants(tenant_id: UUID, cycle_id: UUID) -> Operation[int]:
    """Count the people whom a cycle evaluates."""
    rows = yield Call(SQL["count_participants"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    return int(rows[0][0])


def count_evaluations(tenant_id: UUID, cycle_id: UUID) -> Operation[dict[EvaluationState, int]]:
    """Count the evaluations of a cycle by state; states without any are zero."""
    rows = yield Call(SQL["count_evaluations"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    found = {EvaluationState(row[0]): row[1] for row in rows}
    return {state: found.get(state, 0) for state in EvaluationState}


def count_notifications(tenant_id: UUID, cycle_id: UUID) -> Operation[NotificationCounts]:
    """Count the notifications of a cycle."""
    rows = yield Call(SQL["count_notifications"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    return NotificationCounts(*rows[0])


def list_notifications(
    tenant_id: UUID,
    cycle_id: UUID,
    *,
    limit: int,
    after: tuple[str, int] | None,
    troubled_only: bool,
) -> Operation[tuple[Notification, ...]]:
    """Read one page of notifications by the name of the person."""
    key, last_id = after or ("", 0)
    rows = yield Call(
        SQL["list_notifications"],
        {
            "tenant_id": tenant_id,
            "cycle_id": cycle_id,
            "limit": limit,
            "after_key": key,
            "after_id": last_id,
            "troubled_only": troubled_only,
        },
    )
    return tuple(Notification(*row) for row in rows)
