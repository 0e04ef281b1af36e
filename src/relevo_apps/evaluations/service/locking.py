"""Take a cycle for a change of its state, or refuse in words."""

from typing import NoReturn
from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.errors import CycleNotDraft, CycleNotFound, SnapshotTooOld
from relevo_apps.evaluations.model.cycles import Cycle, CycleState
from relevo_apps.evaluations.store import cycles as cycle_rows
from relevo_apps.evaluations.store.drafts import Outcome


def take_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[Cycle]:
    """Lock the cycle until the caller's transaction ends.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        SnapshotTooOld: The transaction reads from a snapshot older than its lock.
    """
    locked = yield from cycle_rows.lock_cycle(tenant_id, cycle_id)
    if locked is None:
        raise CycleNotFound(cycle=cycle_id)
    cycle, isolation = locked
    if isolation != "read committed":
        # Whoever added people held a share lock only, so the database itself reports nothing.
        raise SnapshotTooOld(name=cycle.name, isolation=isolation.upper())
    return cycle


def read_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[Cycle]:
    """Read the cycle without a lock.

    Raises:
        CycleNotFound: The tenant has no such cycle.
    """
    cycle = yield from cycle_rows.read_cycle(tenant_id, cycle_id)
    if cycle is None:
        raise CycleNotFound(cycle=cycle_id)
    return cycle


def require_draft(tenant_id: UUID, cycle_id: UUID, outcome: Outcome) -> Operation[None]:
    """Refuse what a statement on a draft did not do.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft any more.
    """
    if outcome.state is not CycleState.DRAFT:
        cycle = yield from read_cycle(tenant_id, cycle_id)
        refuse_state(cycle, outcome.state)


def refuse_state(cycle: Cycle, state: CycleState | None) -> NoReturn:
    """Raise what tells the present state of a cycle that should be a draft."""
    raise CycleNotDraft(name=cycle.name, state=(state or cycle.state).value)
