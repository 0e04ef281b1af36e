"""What we say about relevo.pauses: which queues, kinds and tenants rest, until when and why."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.scope import Scope

STATEMENTS: Final = load_statements("relevo.store", "pauses.sql")


@dataclass(frozen=True, slots=True)
class Pause:
    """Something that rests.

    Attributes:
        scope: What kind of thing: a queue, a kind, a tenant.
        name: Which one; a tenant by its id.
        paused_at: Since when.
        paused_until: When it goes on by itself; None where somebody has to resume it.
        reason: Why, readable.
        actor: Who paused it.
    """

    scope: Scope
    name: str
    paused_at: datetime
    paused_until: datetime | None
    reason: str
    actor: str | None


def pause(
    scope: Scope, name: str, for_: timedelta | None, reason: str, actor: str | None
) -> Operation[bool]:
    """Pause it for a time, or until it is resumed; answer False where a longer pause stands."""
    params = {
        "scope": scope.value,
        "name": name,
        "seconds": None if for_ is None else for_.total_seconds(),
        "reason": reason,
        "actor": actor,
    }
    rows = yield Call(STATEMENTS["pause"], params)
    return bool(rows)


def resume(scope: Scope, name: str) -> Operation[bool]:
    """End a pause; answer whether one stood."""
    rows = yield Call(STATEMENTS["resume"], {"scope": scope.value, "name": name})
    return bool(rows and rows[0][0])


def list_pauses() -> Operation[list[Pause]]:
    """Answer every pause that stands."""
    rows = yield Call(STATEMENTS["list_pauses"])
    return [Pause(Scope(row[0]), *row[1:]) for row in rows]
