"""What is said to participants and evaluations while their cycle is a draft.

Each statement locks the cycle and answers the state that it found under the lock; a
state other than draft means that nothing was written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from relevo import Call, Operation, Rows, load_statements
from relevo_apps.evaluations.model.cycles import CycleState, Relation

SQL = load_statements("relevo_apps.evaluations.store", "drafts.sql")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one statement on a draft did.

    Attributes:
        state: The state of the cycle under the lock; None when there is no such cycle.
        counts: How many rows had which outcome.
        named: Whom an outcome concerns, where somebody must know.
    """

    state: CycleState | None
    counts: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _by_outcome(rows: Rows) -> Outcome:
    if not rows:
        return Outcome(None)
    known = [row for row in rows if row[1] is not None]
    return Outcome(
        CycleState(rows[0][0]),
        {row[1]: row[2] for row in known},
        {row[1]: tuple(row[3]) for row in known},
    )


def _by_name(rows: Rows, first: str, second: str) -> Outcome:
    if not rows:
        return Outcome(None)
    return Outcome(CycleState(rows[0][0]), {first: rows[0][1], second: rows[0][2]})


def add_participants(
    tenant_id: UUID, cycle_id: UUID, external_ids: Sequence[str], actor: str
) -> Operation[Outcome]:
    """Add people by their external ids."""
    rows = yield Call(
        SQL["add_participants"],
        {
            "tenant_id": tenant_id,
            "cycle_id": cycle_id,
            "external_ids": list(external_ids),
            "actor": actor,
        },
        needs_transaction=True,
    )
    return _by_outcome(rows)


def add_everyone(tenant_id: UUID, cycle_id: UUID, actor: str) -> Operation[Outcome]:
    """Add every active person."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id, "actor": actor}
    rows = yield Call(SQL["add_everyone"], params, needs_transaction=True)
    return _by_name(rows, "added", "already_there")


def remove_participants(
    tenant_id: UUID, cycle_id: UUID, external_ids: Sequence[str]
) -> Operation[Outcome]:
    """Remove people by their external ids, with the evaluations about them."""
    rows = yield Call(
        SQL["remove_participants"],
        {"tenant_id": tenant_id, "cycle_id": cycle_id, "external_ids": list(external_ids)},
        needs_transaction=True,
    )
    return _by_name(rows, "participants", "evaluations")


def generate_evaluations(tenant_id: UUID, cycle_id: UUID) -> Operation[Outcome]:
    """Make the evaluations follow the rules."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["generate_evaluations"], params, needs_transaction=True)
    return _by_name(rows, "created", "removed")


def count_relations(tenant_id: UUID, cycle_id: UUID) -> Operation[dict[Relation, int]]:
    """Count the evaluations of a cycle by relation."""
    rows = yield Call(SQL["count_relations"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    found = {Relation(row[0]): row[1] for row in rows}
    return {relation: found.get(relation, 0) for relation in Relation}


def add_peers(
    tenant_id: UUID, cycle_id: UUID, pairs: Sequence[tuple[UUID, UUID]]
) -> Operation[Outcome]:
    """Ask the second of each pair about the first."""
    rows = yield Call(
        SQL["add_peers"],
        {
            "tenant_id": tenant_id,
            "cycle_id": cycle_id,
            "participant_ids": [participant for participant, _ in pairs],
            "evaluator_ids": [evaluator for _, evaluator in pairs],
        },
        needs_transaction=True,
    )
    return _by_outcome(rows)
