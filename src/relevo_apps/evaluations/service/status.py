"""Show how far a cycle is, in figures that add up."""

from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.model.reports import CycleStatus, Notification
from relevo_apps.evaluations.service.locking import read_cycle
from relevo_apps.evaluations.store import status as status_rows

TROUBLED_SHOWN = 100


def cycle_status(tenant_id: UUID, cycle_id: UUID) -> Operation[CycleStatus]:
    """Answer a cycle's state, its evaluations and its notifications.

    The figures come from several statements: while a relay works they agree only inside
    a REPEATABLE READ transaction.

    Raises:
        CycleNotFound: The tenant has no such cycle.
    """
    cycle = yield from read_cycle(tenant_id, cycle_id)
    participants = yield from status_rows.count_participants(tenant_id, cycle_id)
    evaluations = yield from status_rows.count_evaluations(tenant_id, cycle_id)
    notifications = yield from status_rows.count_notifications(tenant_id, cycle_id)
    troubled = yield from status_rows.list_notifications(
        tenant_id, cycle_id, limit=TROUBLED_SHOWN, after=None, troubled_only=True
    )
    return CycleStatus(cycle, participants, evaluations, notifications, troubled)


def list_notifications(
    tenant_id: UUID,
    cycle_id: UUID,
    *,
    limit: int = 100,
    after: tuple[str, int] | None = None,
    troubled_only: bool = False,
) -> Operation[tuple[Notification, ...]]:
    """Answer one page of a cycle's notifications, person by person, sorted by name.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The cycle.
        limit: How many at most.
        after: The `sort_key` and `job_id` of the last one seen; None begins at the first.
        troubled_only: Only those that failed or wait for a retry.
    """
    return (
        yield from status_rows.list_notifications(
            tenant_id, cycle_id, limit=limit, after=after, troubled_only=troubled_only
        )
    )
