"""How much may run: set limits, remove them, and say what they allow.

A limit is exact from the moment in which its transaction commits: what runs already
counts, and no claim that did not know of it commits afterwards. What it allows is
decided by the claim (store/jobs/limited.sql), which is the only one to give out permits.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from relevo.db.operation import Operation
from relevo.engine.scopes import tell_workers
from relevo.model.errors import InvalidOption
from relevo.model.kind import Kind
from relevo.model.limit import Measure, check_limit
from relevo.model.scope import Scope
from relevo.store import limits
from relevo.store.limits import LimitName, LimitRow

__all__ = [
    "EACH_TENANT",
    "LimitRow",
    "declare_limits",
    "list_limits",
    "look_at_limits",
    "prune_permits",
    "remove_limit",
    "set_limit",
]

EACH_TENANT: Final = "*"
"""The name of the limit that every tenant has who has none of its own."""

list_limits = limits.list_limits
look_at_limits = limits.look_at_limits
prune_permits = limits.prune_permits

Allowance = tuple[int, float | None]


def set_limit(
    scope: Scope,
    name: str,
    most: int,
    *,
    within: timedelta | None = None,
    actor: str | None = None,
) -> Operation[None]:
    """Let at most so many jobs run at once, or start within a time.

    Needs a transaction: on commit the limit holds for all workers, on roll-back nothing
    has changed. Commit at once: nothing starts until then, so the server ends a transaction
    that idles for five seconds. Jobs that run go on, and count; where more of them run than
    are allowed nothing starts until fewer do. Above READ COMMITTED it has to be the first
    thing that the transaction does: what started after its snapshot would not be counted.

    Args:
        scope: What it is about.
        name: Which queue, kind or tenant (its id, or ``*`` for each that has no limit of
            its own); for lanes the kind whose lanes are meant.
        most: How many, from 0 to 10000.
        within: Counts starts in any time of this length; None counts what runs at once.
        actor: Who sets it. A limit with an actor is not changed by what code declares.

    Raises:
        InvalidOption: A value makes no sense.
    """
    check_limit(most, within)
    if not name:
        raise InvalidOption(
            option="name", value=name, why="it is empty", next="say which one is meant"
        )
    seconds = None if within is None else within.total_seconds()
    measure = Measure.RUNNING if within is None else Measure.STARTS
    yield from limits.lock_limits()
    yield from _set((scope, name, measure), (most, seconds), actor)
    yield from tell_workers(scope, name)


def remove_limit(scope: Scope, name: str, *, of_starts: bool = False) -> Operation[bool]:
    """Remove a limit; answer whether there was one. Needs a transaction, as in `set_limit`.

    A tenant that loses its own limit comes under the one of each, with what it runs.

    Args:
        scope: What it is about.
        name: Which one, as in `set_limit`.
        of_starts: The limit of starts within a time, not of what runs at once.
    """
    measure = Measure.STARTS if of_starts else Measure.RUNNING
    yield from limits.lock_limits()
    if scope is Scope.TENANT and name != EACH_TENANT:
        yield from _hand_over(name, measure)
    removed = yield from limits.delete_limit((scope, name, measure))
    if removed:
        yield from tell_workers(scope, name)
    return removed


def _hand_over(tenant: str, measure: Measure) -> Operation[None]:
    own = yield from limits.find_limit((Scope.TENANT, tenant, measure))
    each = yield from limits.find_limit((Scope.TENANT, EACH_TENANT, measure))
    if own is not None and each is not None:
        yield from limits.hand_over(own[0], each[0], tenant)


def declare_limits(kinds: Sequence[Kind]) -> Operation[bool]:
    """Make the limits that code declares for these kinds the ones that hold.

    Those that somebody has set by hand are left as they are. Needs a transaction, as in
    `set_limit`. Answer whether anything changed.
    """
    wanted = _declared_by(kinds)
    gone, changed = yield from _differences(kinds, wanted)
    if not gone and not changed:
        return False
    # Only now, so that workers which start with nothing new to say do not wait for each other.
    yield from limits.lock_limits()
    # Somebody may have had the lock before.
    gone, changed = yield from _differences(kinds, wanted)
    for place in gone:
        yield from limits.delete_limit(place)
    for place in changed:
        yield from _set(place, wanted[place], None)
    for kind in sorted({name for _, name, _ in [*gone, *changed]}):
        yield from tell_workers(Scope.KIND, kind)
    return True


def _differences(
    kinds: Sequence[Kind], wanted: Mapping[LimitName, Allowance]
) -> Operation[tuple[list[LimitName], list[LimitName]]]:
    """Answer which declared limits are to go, and which are to be set."""
    present = yield from limits.list_declared([kind.name for kind in kinds])
    gone = sorted(present - wanted.keys())
    changed = []
    for place, allowance in sorted(wanted.items()):
        standing = yield from limits.find_limit(place)
        if standing is None or (standing[3] is None and standing[1:3] != allowance):
            changed.append(place)
    return gone, changed


def _declared_by(kinds: Sequence[Kind]) -> dict[LimitName, Allowance]:
    wanted: dict[LimitName, Allowance] = {}
    for kind in kinds:
        if kind.ordered:
            wanted[Scope.LANE, kind.name, Measure.ORDER] = (1, None)
        for limit in kind.limits:
            wanted[Scope(limit.per), kind.name, limit.measure] = (limit.most, limit.seconds)
    return wanted


def _set(place: LimitName, allowance: Allowance, actor: str | None) -> Operation[None]:
    standing = yield from limits.find_limit(place)
    if standing is not None:
        yield from limits.change_limit(standing[0], *allowance, actor)
        return
    limit_id = yield from limits.insert_limit(place, *allowance, actor)
    yield from limits.take_running_permits(limit_id)
