"""Prepare a cycle: create it, choose who takes part, and who evaluates whom.

Each change waits for whoever changes the same draft or activates it, and is refused unless
the cycle is a draft then: its statement sees what the other one has committed, so nobody is
evaluated who has just been taken out. On roll-back nothing of it remains.
"""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.errors import CycleExists, CycleNotFound, PeersNotInRules
from relevo_apps.evaluations.model.cycles import Cycle, CycleState, Relation
from relevo_apps.evaluations.model.reports import Added, Generated, Removed
from relevo_apps.evaluations.service.locking import (
    read_cycle,
    refuse_state,
    require_draft,
    take_cycle,
)
from relevo_apps.evaluations.store import cycles as cycle_rows
from relevo_apps.evaluations.store import drafts as draft_rows
from relevo_apps.evaluations.store import people as people_rows
from relevo_apps.evaluations.store.planning import set_wise

USUAL_RULES = (Relation.SELF, Relation.MANAGER, Relation.UPWARD)


def create_cycle(
    tenant_id: UUID,
    name: str,
    *,
    actor: str,
    rules: Sequence[Relation] = USUAL_RULES,
    due_on: date | None = None,
) -> Operation[Cycle]:
    """Create a draft.

    Args:
        tenant_id: Whose cycle it is.
        name: Unique within the tenant.
        actor: Who creates it, for the record.
        rules: The relations that it asks for, at least one.
        due_on: The day until which evaluations are expected.

    Raises:
        CycleExists: The name is taken, be it in other capitals.
    """
    for taken, state in (yield from cycle_rows.list_names(tenant_id)):
        if taken.casefold() == name.casefold():
            raise CycleExists(name=taken, state=state.value)
    cycle = yield from cycle_rows.create_cycle(
        tenant_id, name, list(dict.fromkeys(rules)), due_on, actor
    )
    if cycle is None:
        existing = yield from find_cycle(tenant_id, name)
        raise CycleExists(name=name, state=existing.state.value)
    yield from cycle_rows.insert_cycle_event(
        tenant_id, cycle.id, "created", actor, {"rules": [rule.value for rule in cycle.rules]}
    )
    return cycle


def delete_draft(tenant_id: UUID, cycle_id: UUID, *, actor: str) -> Operation[Cycle]:
    """Give a draft up: it is cancelled, leaves the lists, and its name is free again.

    Its people, its evaluations and the record of what was done to it stay under its id,
    because it may have been active once and people may have been written to.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The draft.
        actor: Who deletes it, for the record.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft, or an activation came first.
        SnapshotTooOld: The caller's transaction is not READ COMMITTED.
    """
    cycle = yield from take_cycle(tenant_id, cycle_id)
    if cycle.state is not CycleState.DRAFT:
        refuse_state(cycle, cycle.state)
    deleted = yield from cycle_rows.delete_draft(tenant_id, cycle_id)
    yield from cycle_rows.insert_cycle_event(
        tenant_id, cycle_id, "deleted", actor, {"name": cycle.name}
    )
    return deleted


def find_cycle(tenant_id: UUID, name: str) -> Operation[Cycle]:
    """Answer the cycle with this name.

    Raises:
        CycleNotFound: The tenant has no such cycle.
    """
    cycle = yield from cycle_rows.find_cycle(tenant_id, name)
    if cycle is None:
        raise CycleNotFound(cycle=name)
    return cycle


def add_participants(
    tenant_id: UUID, cycle_id: UUID, external_ids: Sequence[str] | None, *, actor: str
) -> Operation[Added]:
    """Add people to a draft; who is there already stays as they are.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The draft.
        external_ids: Whom to add; None adds everybody who is active.
        actor: Who adds them, for the record.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft, or an activation came first.
    """
    yield from cycle_rows.hold_cycle(tenant_id, cycle_id)
    if external_ids is None:
        outcome = yield from set_wise(draft_rows.add_everyone(tenant_id, cycle_id, actor))
    else:
        outcome = yield from set_wise(
            draft_rows.add_participants(tenant_id, cycle_id, external_ids, actor)
        )
    yield from require_draft(tenant_id, cycle_id, outcome)
    if added := outcome.counts.get("added", 0):
        details = {"participants": added}
        yield from cycle_rows.insert_cycle_event(
            tenant_id, cycle_id, "participants_added", actor, details
        )
    return Added(
        added=added,
        already_there=outcome.counts.get("already_there", 0),
        unknown=outcome.named.get("unknown", ()),
        inactive=outcome.named.get("inactive", ()),
    )


def remove_participants(
    tenant_id: UUID, cycle_id: UUID, external_ids: Sequence[str], *, actor: str
) -> Operation[Removed]:
    """Take people out of a draft, with the evaluations about them.

    What they were to write about others stays; generate the evaluations again to
    follow the rules.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The draft.
        external_ids: Whom to remove; who does not take part is passed over.
        actor: Who removes them, for the record.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft, or an activation came first.
    """
    yield from cycle_rows.hold_cycle(tenant_id, cycle_id)
    outcome = yield from set_wise(draft_rows.remove_participants(tenant_id, cycle_id, external_ids))
    yield from require_draft(tenant_id, cycle_id, outcome)
    removed = Removed(**outcome.counts)
    if removed.participants:
        yield from cycle_rows.insert_cycle_event(
            tenant_id, cycle_id, "participants_removed", actor, outcome.counts
        )
    return removed


def generate_evaluations(tenant_id: UUID, cycle_id: UUID, *, actor: str) -> Operation[Generated]:
    """Make the evaluations of a draft follow its rules and the present managers.

    Missing evaluations are added, those that no longer follow from a rule are removed,
    and peers stay as they were named. Doing it twice changes nothing.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft, or an activation came first.
    """
    yield from cycle_rows.hold_cycle(tenant_id, cycle_id)
    outcome = yield from set_wise(draft_rows.generate_evaluations(tenant_id, cycle_id))
    yield from require_draft(tenant_id, cycle_id, outcome)
    totals = yield from draft_rows.count_relations(tenant_id, cycle_id)
    if any(outcome.counts.values()):
        yield from cycle_rows.insert_cycle_event(
            tenant_id, cycle_id, "evaluations_generated", actor, outcome.counts
        )
    return Generated(outcome.counts["created"], outcome.counts["removed"], totals)


def add_peers(
    tenant_id: UUID, cycle_id: UUID, pairs: Sequence[tuple[str, str]], *, actor: str
) -> Operation[Added]:
    """Ask peers about participants of a draft.

    Args:
        tenant_id: Whose cycle it is.
        cycle_id: The draft.
        pairs: The participant and the peer, each by external id or by address.
        actor: Who names them, for the record.

    Raises:
        CycleNotFound: The tenant has no such cycle.
        CycleNotDraft: The cycle is no draft, or an activation came first.
        PeersNotInRules: The cycle does not ask peers.
    """
    cycle = yield from read_cycle(tenant_id, cycle_id)
    if Relation.PEER not in cycle.rules:
        raise PeersNotInRules(name=cycle.name, rules=", ".join(cycle.rules))
    references = sorted({reference for pair in pairs for reference in pair})
    people = yield from set_wise(people_rows.resolve_people(tenant_id, references))
    yield from cycle_rows.hold_cycle(tenant_id, cycle_id)
    known = [(people[one], people[two]) for one, two in pairs if one in people and two in people]
    outcome = yield from set_wise(draft_rows.add_peers(tenant_id, cycle_id, known))
    yield from require_draft(tenant_id, cycle_id, outcome)
    if added := outcome.counts.get("added", 0):
        yield from cycle_rows.insert_cycle_event(
            tenant_id, cycle_id, "peers_added", actor, {"peers": added}
        )
    return Added(
        added=added,
        already_there=outcome.counts.get("already_there", 0),
        unknown=tuple(reference for reference in references if reference not in people),
        inactive=outcome.named.get("inactive", ()),
        not_participants=outcome.named.get("not_participants", ()),
        selves=outcome.named.get("selves", ()),
    )
