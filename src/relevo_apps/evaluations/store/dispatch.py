"""What is said when a cycle is activated or recalled: evaluations, and their notifications."""

from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.cycles import Dispatch
from relevo_apps.evaluations.model.people import Language
from relevo_apps.evaluations.model.reports import Invited, Recipient

SQL = load_statements("relevo_apps.evaluations.store", "dispatch.sql")


def activate_evaluations(tenant_id: UUID, cycle_id: UUID) -> Operation[tuple[int, int]]:
    """Activate the evaluations; answer how many, and how many people they ask."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["activate_evaluations"], params, needs_transaction=True)
    return rows[0][0], rows[0][1]


def withdraw_evaluations(tenant_id: UUID, cycle_id: UUID) -> Operation[int]:
    """Make the active evaluations drafts again; answer how many."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["withdraw_evaluations"], params, needs_transaction=True)
    return int(rows[0][0])


def _dispatch(tenant_id: UUID, cycle_id: UUID, actor: str, dispatch: Dispatch) -> dict[str, object]:
    return {
        "tenant_id": tenant_id,
        "cycle_id": cycle_id,
        "actor": actor,
        "queue": dispatch.queue,
        "max_attempts": dispatch.max_attempts,
        "priority": dispatch.priority,
        "headers": dispatch.headers,
        "hold_seconds": dispatch.hold.total_seconds(),
    }


def find_undelivered(tenant_id: UUID, cycle_id: UUID) -> Operation[list[int]]:
    """Answer the notifications of an earlier activation that are still to be delivered."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["find_undelivered"], params, needs_transaction=True)
    return [row[0] for row in rows]


def insert_notifications(
    tenant_id: UUID, cycle_id: UUID, actor: str, dispatch: Dispatch
) -> Operation[int]:
    """Insert the notifications that do not exist yet; answer how many."""
    params = _dispatch(tenant_id, cycle_id, actor, dispatch)
    rows = yield Call(SQL["insert_notifications"], params, needs_transaction=True)
    return int(rows[0][0])


def list_recipients(
    tenant_id: UUID, cycle_id: UUID
) -> Operation[tuple[tuple[Recipient, ...], tuple[Recipient, ...]]]:
    """Answer who was written to, and who was being written to."""
    rows = yield Call(SQL["list_recipients"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    mailed = tuple(Recipient(*row[1:]) for row in rows if not row[0])
    in_flight = tuple(Recipient(*row[1:]) for row in rows if row[0])
    return mailed, in_flight


def list_invited(tenant_id: UUID, cycle_id: UUID) -> Operation[tuple[Invited, ...]]:
    """Answer who is asked and can be written to, sorted by name."""
    rows = yield Call(SQL["list_invited"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    return tuple(Invited(row[0], row[1], row[2], Language(row[3]), row[4]) for row in rows)
