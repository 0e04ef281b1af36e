"""What is asked when a notification is about to be delivered."""

from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.cycles import CycleState, Relation
from relevo_apps.evaluations.model.invitation import Asked, Invitation
from relevo_apps.evaluations.model.people import Language

SQL = load_statements("relevo_apps.evaluations.store", "delivery.sql")


def read_invitation(
    tenant_id: UUID, cycle_id: UUID, evaluator_id: UUID
) -> Operation[Invitation | None]:
    """Read what a notification has to say; None when the cycle or the person is not there."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id, "evaluator_id": evaluator_id}
    rows = yield Call(SQL["read_invitation"], params)
    if not rows:
        return None
    cycle, state, due_on, full_name, first_name, email, language, active = rows[0][:8]
    return Invitation(
        cycle=cycle,
        state=CycleState(state),
        due_on=due_on,
        full_name=full_name,
        first_name=first_name,
        email=email,
        language=Language(language),
        active=active,
        asked=tuple(Asked(Relation(row[8]), row[9]) for row in rows if row[8] is not None),
    )
