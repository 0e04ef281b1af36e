"""Take an activation back: cycle and evaluations are drafts, unsent messages stay unsent."""

from uuid import UUID

from relevo import KEEP, Operation, cancel_jobs
from relevo_apps.evaluations.errors import CycleNotActive, RecallRefused
from relevo_apps.evaluations.model.cycles import NOTIFICATION_KIND, CycleState, EvaluationState
from relevo_apps.evaluations.model.reports import Recall
from relevo_apps.evaluations.service.locking import take_cycle
from relevo_apps.evaluations.store import cycles as cycle_rows
from relevo_apps.evaluations.store import dispatch as dispatch_rows
from relevo_apps.evaluations.store import status as status_rows
from relevo_apps.evaluations.store.planning import set_wise


def recall(tenant_id: UUID, cycle_id: UUID, *, actor: str) -> Operation[Recall]:
    """Take back an activation, and say who had been written to by then.

    Within the hold that is nobody. Later, messages that were sent stay sent: their rows
    remain, and a second activation writes nothing new to these people. A message that is
    being sent at this moment is asked to stop and reported as in flight.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The active cycle.
        actor: Who recalls it, for the record.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotActive: There is nothing to take back.
        RecallRefused: Evaluations were already submitted.
        SnapshotTooOld: The caller's transaction is not READ COMMITTED.
    """
    cycle = yield from take_cycle(tenant_id, cycle_id)
    if cycle.state is not CycleState.ACTIVE:
        raise CycleNotActive(name=cycle.name, state=cycle.state.value)
    counts = yield from status_rows.count_evaluations(tenant_id, cycle_id)
    if submitted := counts[EvaluationState.SUBMITTED]:
        raise RecallRefused(name=cycle.name, submitted=submitted)
    taken_back = yield from cancel_jobs(tenant_id, NOTIFICATION_KIND, str(cycle_id), KEEP)
    cancelled = taken_back.cancelled
    evaluations = yield from dispatch_rows.withdraw_evaluations(tenant_id, cycle_id)
    draft = yield from cycle_rows.reopen_cycle(tenant_id, cycle_id)
    mailed, in_flight = yield from set_wise(dispatch_rows.list_recipients(tenant_id, cycle_id))
    yield from cycle_rows.insert_cycle_event(
        tenant_id,
        cycle_id,
        "recalled",
        actor,
        {
            "evaluations": evaluations,
            "cancelled": cancelled,
            "mailed": len(mailed),
            "in_flight": len(in_flight),
        },
    )
    return Recall(draft, evaluations, cancelled, mailed, in_flight)
