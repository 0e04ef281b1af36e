"""What is said to the tables of cycles and of what was done to them."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from uuid import UUID

from relevo import Call, Operation, Row, load_statements
from relevo_apps.evaluations.model.cycles import Cycle, CycleState, Relation
from relevo_apps.evaluations.model.findings import Finding, FindingKind

SQL = load_statements("relevo_apps.evaluations.store", "cycles.sql")


def as_cycle(row: Row) -> Cycle:
    """Read a cycle from the first nine columns of a row."""
    rules = tuple(Relation(rule) for rule in row[3])
    return Cycle(row[0], row[1], CycleState(row[2]), rules, *row[4:9])


def create_cycle(
    tenant_id: UUID, name: str, rules: Sequence[Relation], due_on: date | None, actor: str
) -> Operation[Cycle | None]:
    """Insert a draft; None when the name is taken."""
    rows = yield Call(
        SQL["create_cycle"],
        {
            "tenant_id": tenant_id,
            "name": name,
            "rules": [rule.value for rule in rules],
            "due_on": due_on,
            "actor": actor,
        },
    )
    return as_cycle(rows[0]) if rows else None


def read_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[Cycle | None]:
    """Read a cycle by its id."""
    rows = yield Call(SQL["read_cycle"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    return as_cycle(rows[0]) if rows else None


def find_cycle(tenant_id: UUID, name: str) -> Operation[Cycle | None]:
    """Read a cycle by its name."""
    rows = yield Call(SQL["find_cycle"], {"tenant_id": tenant_id, "name": name})
    return as_cycle(rows[0]) if rows else None


def list_names(tenant_id: UUID) -> Operation[list[tuple[str, CycleState]]]:
    """Read the names that are taken, each with the state of its cycle."""
    rows = yield Call(SQL["list_names"], {"tenant_id": tenant_id})
    return [(row[0], CycleState(row[1])) for row in rows]


def lock_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[tuple[Cycle, str] | None]:
    """Take the cycle until the caller's transaction ends; answer the isolation with it."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["lock_cycle"], params, needs_transaction=True)
    return (as_cycle(rows[0]), rows[0][9]) if rows else None


def hold_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[None]:
    """Keep others from changing what the draft consists of until the transaction ends."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    yield Call(SQL["hold_cycle"], params, needs_transaction=True)


def activate_cycle(
    tenant_id: UUID, cycle_id: UUID, actor: str, hold: timedelta
) -> Operation[Cycle]:
    """Make the locked draft active."""
    rows = yield Call(
        SQL["activate_cycle"],
        {
            "tenant_id": tenant_id,
            "cycle_id": cycle_id,
            "actor": actor,
            "hold_seconds": hold.total_seconds(),
        },
        needs_transaction=True,
    )
    return as_cycle(rows[0])


def reopen_cycle(tenant_id: UUID, cycle_id: UUID) -> Operation[Cycle]:
    """Make the locked active cycle a draft again."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["reopen_cycle"], params, needs_transaction=True)
    return as_cycle(rows[0])


def delete_draft(tenant_id: UUID, cycle_id: UUID) -> Operation[Cycle]:
    """Cancel the locked draft and free its name."""
    params = {"tenant_id": tenant_id, "cycle_id": cycle_id}
    rows = yield Call(SQL["delete_draft"], params, needs_transaction=True)
    return as_cycle(rows[0])


def insert_cycle_event(
    tenant_id: UUID, cycle_id: UUID, what: str, actor: str, details: Mapping[str, object]
) -> Operation[None]:
    """Record what was done to a cycle."""
    yield Call(
        SQL["insert_cycle_event"],
        {
            "tenant_id": tenant_id,
            "cycle_id": cycle_id,
            "what": what,
            "actor": actor,
            "details": json.dumps(details),
        },
    )


def find_problems(tenant_id: UUID, cycle_id: UUID) -> Operation[list[Finding]]:
    """Read everything an activation should know, sorted by person."""
    rows = yield Call(SQL["find_problems"], {"tenant_id": tenant_id, "cycle_id": cycle_id})
    return [Finding(FindingKind.of(row[0]), *row[1:]) for row in rows]
