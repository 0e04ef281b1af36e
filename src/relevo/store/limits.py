"""What we say about relevo.limits and relevo.permits: how much may run, and who runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.limit import Measure
from relevo.model.scope import Scope

STATEMENTS: Final = load_statements("relevo.store", "limits.sql")

LimitName = tuple[Scope, str, Measure]
"""What tells one limit from the others."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit as it stands.

    Attributes:
        scope: What kind of thing it is about.
        name: Which queue, kind or tenant; ``*`` for each tenant, a kind for each of its lanes.
        measure: What it counts.
        most: How many are allowed.
        seconds: In which time, where it counts starts.
        set_at: Since when.
        actor: Who set it; None where code declares it.
        used: How many permits are in use now, over all tenants and lanes.
    """

    scope: Scope
    name: str
    measure: Measure
    most: int
    seconds: float | None
    set_at: datetime
    actor: str | None
    used: int


def look_at_limits(queue: str, kinds: Sequence[str]) -> Operation[tuple[bool, float | None]]:
    """Answer whether starts are limited, and in how many seconds the next timed one may come."""
    rows = yield Call(STATEMENTS["look_at_limits"], {"queue": queue, "kinds": list(kinds)})
    return rows[0][0], rows[0][1]


def find_limit(name: LimitName) -> Operation[tuple[int, int, float | None, str | None] | None]:
    """Answer id, most, seconds and actor of a limit, or None."""
    rows = yield Call(STATEMENTS["find_limit"], _names(name))
    return tuple(rows[0]) if rows else None


def lock_limits() -> Operation[None]:
    """Keep others from changing limits, and claims from starting, until the transaction ends.

    Claims under way are waited for, at most two seconds. From then on the transaction has
    five seconds between statements: the server ends one that stays open, since nothing
    starts meanwhile.
    """
    rows = yield Call(STATEMENTS["read_isolation"], needs_transaction=True)
    if rows[0][0] != "read committed":
        # A snapshot from before the lock would miss what has started since.
        yield Call(STATEMENTS["require_no_snapshot"], needs_transaction=True)
    yield Call(STATEMENTS["bound_wait"], needs_transaction=True)
    yield Call(STATEMENTS["lock_limits"], needs_transaction=True)
    yield Call(STATEMENTS["bound_rest"], needs_transaction=True)


def insert_limit(
    name: LimitName, most: int, seconds: float | None, actor: str | None
) -> Operation[int]:
    """Answer the id of a new limit."""
    params = {**_names(name), "most": most, "seconds": seconds, "actor": actor}
    rows = yield Call(STATEMENTS["insert_limit"], params, needs_transaction=True)
    return int(rows[0][0])


def change_limit(
    limit_id: int, most: int, seconds: float | None, actor: str | None
) -> Operation[None]:
    """Change how much a limit allows."""
    params = {"id": limit_id, "most": most, "seconds": seconds, "actor": actor}
    yield Call(STATEMENTS["change_limit"], params)


def take_running_permits(limit_id: int) -> Operation[None]:
    """Give a new limit's permits to what runs already."""
    yield Call(STATEMENTS["take_running_permits"], {"id": limit_id}, needs_transaction=True)


def hand_over(limit_id: int, heir: int, tenant: str) -> Operation[None]:
    """Have another limit count what a tenant has started under its own one."""
    whose = {"id": heir, "tenant": tenant}
    yield Call(STATEMENTS["forget_tenant"], whose, needs_transaction=True)
    both = {"id": limit_id, "heir": heir}
    yield Call(STATEMENTS["hand_over_permits"], both, needs_transaction=True)


def delete_limit(name: LimitName) -> Operation[bool]:
    """Remove a limit; answer whether there was one."""
    rows = yield Call(STATEMENTS["delete_limit"], _names(name))
    return bool(rows)


def list_limits() -> Operation[list[LimitRow]]:
    """Answer every limit and how much of it is in use."""
    rows = yield Call(STATEMENTS["list_limits"])
    return [LimitRow(Scope(row[0]), row[1], Measure(row[2]), *row[3:]) for row in rows]


def list_declared(kinds: Sequence[str]) -> Operation[set[LimitName]]:
    """Answer the limits that code has declared for the kinds."""
    rows = yield Call(STATEMENTS["list_declared"], {"kinds": list(kinds)})
    return {(Scope(scope), name, Measure(measure)) for scope, name, measure in rows}


def prune_permits(limit: int) -> Operation[int]:
    """Remove at most `limit` permits that nobody has; answer how many."""
    rows = yield Call(STATEMENTS["prune_permits"], {"limit": limit})
    return int(rows[0][0])


def _names(limit: LimitName) -> dict[str, object]:
    scope, name, measure = limit
    return {"scope": scope.value, "name": name, "measure": measure.value}
