"""Activate a cycle: the cycle, its evaluations and its notifications in one commit.

The number of statements does not depend on the number of people. Nothing is sent here.
The preflight is the same operation, taken back.
"""

from collections.abc import Callable
from uuid import UUID

from relevo import Operation, RelevoError, requeue_jobs
from relevo_apps.evaluations.errors import ActivationBlocked, CycleNotDraft, OneFindingBlocks
from relevo_apps.evaluations.model.cycles import DEFAULT_DISPATCH, Cycle, CycleState, Dispatch
from relevo_apps.evaluations.model.findings import Finding, split_findings
from relevo_apps.evaluations.model.reports import Activation, Invited, Preflight
from relevo_apps.evaluations.service.locking import read_cycle, refuse_state, take_cycle
from relevo_apps.evaluations.store import cycles as cycle_rows
from relevo_apps.evaluations.store import dispatch as dispatch_rows
from relevo_apps.evaluations.store import preflight as preflight_rows
from relevo_apps.evaluations.store.planning import set_wise

Wake = Callable[[str], Operation[object]]


def activate(
    tenant_id: UUID,
    cycle_id: UUID,
    *,
    actor: str,
    dispatch: Dispatch = DEFAULT_DISPATCH,
    wake: Wake | None = None,
) -> Operation[Activation]:
    """Activate a draft, its evaluations and one notification for each evaluator.

    On commit all of it is there and the notifications are due when the hold ends; on
    roll-back, or when the connection is lost anywhere in between, nothing of it is. Of
    several activations at once one wins and the others are refused.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The draft.
        actor: Who activates, for the record.
        dispatch: The queue, the attempts, the priority and the hold of the notifications.
        wake: The operation that wakes the workers of a queue when the caller commits.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft any more.
        ActivationBlocked: Something blocks it; nothing was written.
        SnapshotTooOld: The caller's transaction is not READ COMMITTED.
    """
    activation = yield from set_wise(_activate(tenant_id, cycle_id, actor, dispatch))
    if wake is not None:
        yield from wake(dispatch.queue)
    return activation


def _activate(
    tenant_id: UUID, cycle_id: UUID, actor: str, dispatch: Dispatch
) -> Operation[Activation]:
    cycle = yield from take_cycle(tenant_id, cycle_id)
    if cycle.state is not CycleState.DRAFT:
        refuse_state(cycle, cycle.state)
    warnings = yield from _require_ready(tenant_id, cycle)
    active = yield from cycle_rows.activate_cycle(tenant_id, cycle_id, actor, dispatch.hold)
    evaluations, evaluators = yield from dispatch_rows.activate_evaluations(tenant_id, cycle_id)
    undelivered = yield from dispatch_rows.find_undelivered(tenant_id, cycle_id)
    revived = yield from requeue_jobs(
        tenant_id, undelivered, delay=dispatch.hold, actor=actor, queue=dispatch.queue
    )
    created = yield from dispatch_rows.insert_notifications(tenant_id, cycle_id, actor, dispatch)
    yield from cycle_rows.insert_cycle_event(
        tenant_id,
        cycle_id,
        "activated",
        actor,
        {"evaluations": evaluations, "evaluators": evaluators, "notifications": created + revived},
    )
    return Activation(
        cycle=active,
        evaluations=evaluations,
        evaluators=evaluators,
        created=created,
        revived=revived,
        already_there=evaluators - created - revived,
        warnings=warnings,
    )


def _require_ready(tenant_id: UUID, cycle: Cycle) -> Operation[tuple[Finding, ...]]:
    """Refuse what the findings block; answer the warnings."""
    findings = yield from cycle_rows.find_problems(tenant_id, cycle.id)
    blocked, warnings = split_findings(findings)
    if blocked:
        refusal = OneFindingBlocks if len(blocked) == 1 else ActivationBlocked
        raise refusal(
            name=cycle.name,
            blocked=len(blocked),
            first=blocked[0].what,
            findings=tuple(findings),
        )
    return warnings


def preflight(
    tenant_id: UUID,
    cycle_id: UUID,
    *,
    actor: str,
    dispatch: Dispatch = DEFAULT_DISPATCH,
) -> Operation[Preflight]:
    """Do the activation, look at it, and take it back to a savepoint.

    Whether the caller then commits or rolls back, every table is as it was.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The cycle.
        actor: Who would activate it.
        dispatch: As for the activation.

    Raises:
        CycleNotFound: The tenant has no such cycle.
    """
    cycle = yield from read_cycle(tenant_id, cycle_id)
    yield from preflight_rows.begin_preflight()
    activation: Activation | None = None
    refusal: RelevoError | None = None
    findings: tuple[Finding, ...] = ()
    ready: tuple[Invited, ...] = ()
    try:
        activation = yield from activate(tenant_id, cycle_id, actor=actor, dispatch=dispatch)
        findings = activation.warnings
    except RelevoError as refused:
        refusal = refused
        findings = refused.findings if isinstance(refused, ActivationBlocked) else ()
    if not isinstance(refusal, CycleNotDraft):
        ready = yield from set_wise(dispatch_rows.list_invited(tenant_id, cycle_id))
    yield from preflight_rows.end_preflight()
    blocked, warnings = split_findings(list(findings))
    return Preflight(cycle, ready, warnings, blocked, activation, refusal)


def record_refusal(
    tenant_id: UUID, cycle_id: UUID, refusal: RelevoError, *, actor: str
) -> Operation[None]:
    """Record that an activation was refused, in a transaction after the refused one.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The cycle.
        refusal: What was raised.
        actor: Who tried.
    """
    details = {"error": type(refusal).__name__, "reason": str(refusal)}
    yield from cycle_rows.insert_cycle_event(
        tenant_id, cycle_id, "activation_refused", actor, details
    )
