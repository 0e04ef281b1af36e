"""Hold work back: pause a queue, a kind or a tenant, let it go on, and see what still runs of it.

A pause keeps jobs from being claimed and touches none that runs. Waiting until nothing
runs is the caller's; `look` says how far it is.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from relevo.db.operation import Operation
from relevo.engine.scopes import read_name, tell_workers
from relevo.model.checks import check_positive
from relevo.model.errors import InvalidOption
from relevo.model.options import MAX_DURATION
from relevo.model.scope import Scope
from relevo.store import pauses
from relevo.store.jobs import running as running_rows
from relevo.store.pauses import Pause

__all__ = [
    "PAUSED",
    "Look",
    "Pause",
    "Paused",
    "find_pause",
    "list_pauses",
    "look",
    "pause",
    "resume",
]

PAUSED: Final = (Scope.QUEUE, Scope.KIND, Scope.TENANT)
"""What can be paused."""

list_pauses = pauses.list_pauses


@dataclass(frozen=True, slots=True)
class Paused:
    """What became of the wish to pause something.

    Attributes:
        pause: The pause that stands now; None where a very short one is over already.
        is_kept: Whether it stood before and was kept, because it lasts as long or longer.
    """

    pause: Pause | None
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Look:
    """How far something that was paused has come to rest.

    Attributes:
        is_paused: Whether it is paused at all.
        running: How many of its jobs are in the hands of workers.
        claims: The claims that may not have seen the pause yet: what they take will run.
    """

    is_paused: bool
    running: int
    claims: frozenset[str]

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs, and nothing can start."""
        return self.is_paused and not self.running and not self.claims


def pause(
    scope: Scope,
    name: str,
    reason: str,
    *,
    for_: timedelta | None = None,
    actor: str | None = None,
) -> Operation[Paused]:
    """Keep workers from claiming jobs of a queue, a kind or a tenant.

    On commit the next claims pass it by, on roll-back nothing has changed. What runs goes
    on. A pause that stands and lasts as long or longer is kept as it is.

    Args:
        scope: What is paused.
        name: Which one; a tenant by slug or id.
        reason: Why, for people.
        for_: For how long, by the database's clock; None means until it is resumed.
        actor: Who asks.

    Raises:
        TenantNotFound: There is no such tenant.
        InvalidOption: The name, the reason or the time makes no sense.
    """
    target = yield from _find(scope, name)
    is_new = yield from pauses.pause(scope, target, _check_time(for_), _check_reason(reason), actor)
    stands = yield from find_pause(scope, target)
    return Paused(stands, is_kept=not is_new)


def resume(scope: Scope, name: str) -> Operation[bool]:
    """Let workers claim it again; answer whether a pause stood.

    The idle workers that may have work now are told when the transaction commits. On a
    connection that commits each statement by itself none is missed: whoever falls idle
    later than the look at who is idle has seen that the pause is over.

    Args:
        scope: What goes on.
        name: Which one; a tenant by slug or id.

    Raises:
        TenantNotFound: There is no such tenant.
        InvalidOption: No queue or kind can have this name, or lanes were meant.
    """
    target = yield from _find(scope, name)
    stood = yield from pauses.resume(scope, target)
    yield from tell_workers(scope, target)
    return stood


def find_pause(scope: Scope, name: str) -> Operation[Pause | None]:
    """Answer the pause that stands, or None; a tenant is named by its id."""
    standing = yield from list_pauses()
    found = (each for each in standing if (each.scope, each.name) == (scope, name))
    return next(found, None)


def look(scope: Scope, name: str, before: frozenset[str] | None = None) -> Operation[Look]:
    """Look how far something that was paused has come to rest.

    Counting costs one pass over the live jobs. The first look has to come after the
    pause was committed, and the statements have to be transactions of their own.

    Args:
        scope: What was paused.
        name: Which one, as rows know it.
        before: The claims of the look before; None at the first.
    """
    claims: frozenset[str] = frozenset()
    if before is None or before:
        # Claims that began since the first look have seen the pause, and are none of it.
        now = yield from running_rows.list_claims()
        claims = now if before is None else before & now
    # Counted after the claims: what one of them took is there to be seen when it is gone.
    running = yield from running_rows.count_running(scope, name)
    stands = yield from find_pause(scope, name)
    return Look(stands is not None, running, claims)


def _find(scope: Scope, name: str) -> Operation[str]:
    if scope not in PAUSED:
        raise InvalidOption(
            option="scope",
            value=scope.value,
            why="lanes cannot be paused",
            next="name their queue, their kind or their tenant",
        )
    target = yield from read_name(scope, name)
    return target


def _check_time(for_: timedelta | None) -> timedelta | None:
    if for_ is None:
        return None
    check_positive("for", for_)
    if for_ > MAX_DURATION:
        raise InvalidOption(
            option="for",
            value=str(for_),
            why="it is longer than a hundred years",
            next="leave it out to pause until it is resumed",
        )
    return for_


def _check_reason(reason: str) -> str:
    text = reason.strip()
    if not text or not text.isprintable():
        raise InvalidOption(
            option="reason",
            value=reason,
            why="people read it on one line",
            next="say in a few words why",
        )
    return text
