"""Judge what was started under limits by what the rows say afterwards, start by start.

A start is an interval of the database's clock: from the moment in which the claim took its
permits to the moment in which its settle was written. Both lie inside what the permit covered,
so where two intervals overlap two jobs ran at once, and no overlap is made up.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from uuid import UUID

import psycopg

from relevo.model.limit import Measure
from relevo.model.scope import Scope
from relevo.store.limits import LimitName

STARTS = """
    SELECT j.tenant_id, j.queue, j.kind, j.lane_key, j.id, a.attempt, a.started_at, a.finished_at
    FROM relevo.attempts AS a
    JOIN relevo.jobs AS j ON j.tenant_id = a.tenant_id AND j.id = a.job_id
    UNION
    SELECT j.tenant_id, j.queue, j.kind, j.lane_key, j.id, j.attempt, j.started_at, j.finished_at
    FROM relevo.jobs AS j
    WHERE j.state = 'completed'
"""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job, and when it ended."""

    tenant: UUID
    queue: str
    kind: str
    key: str | None
    job: int
    attempt: int
    began: datetime
    ended: datetime


@dataclass(slots=True)
class Rule:
    """What a limit allowed, and from when to when.

    Attributes:
        place: Which limit.
        seconds: In which time, where it counts starts.
        changes: When it was set, and to how much; None is when its removal began.
        gone: When each removal had ended.
    """

    place: LimitName
    seconds: float = 0.0
    changes: list[tuple[datetime, int | None]] = field(default_factory=list)
    gone: list[datetime] = field(default_factory=list)

    def most(self, at: datetime) -> int | None:
        """How much it allowed at that moment; None where it did not stand."""
        found = [most for since, most in self.changes if since <= at]
        return found[-1] if found else None

    def may_stand(self, at: datetime) -> bool:
        """Whether it stood at that moment, or was just being removed."""
        removed = [since for since, most in self.changes if most is None]
        going = any(begun <= at <= over for begun, over in zip(removed, self.gone, strict=False))
        # A removal that nobody saw the end of is still going on.
        return going or self.most(at) is not None or len(removed) > len(self.gone)

    def since(self, at: datetime) -> datetime:
        """When it was set for the first time after its last removal before the moment."""
        begun = at
        for since, most in reversed([each for each in self.changes if each[0] <= at]):
            if most is None:
                break
            begun = since
        return begun


def read_starts(connection: psycopg.Connection) -> list[Start]:
    """Every start that has ended, in the order of their beginnings."""
    rows = connection.execute(STARTS).fetchall()
    return sorted((Start(*row) for row in rows), key=lambda start: (start.began, start.job))


def excesses(starts: Sequence[Start], rules: Iterable[Rule]) -> list[str]:
    """Every start that a rule which stood at its moment did not allow, said in a line."""
    all_rules = list(rules)
    owned = {rule.place[1:]: rule for rule in all_rules if rule.place[0] is Scope.TENANT}
    return [
        line
        for rule in all_rules
        for group in _groups(starts, rule).values()
        for line in _JUDGES[rule.place[2]](rule, group, owned)
    ]


def out_of_order(starts: Sequence[Start], kind: str) -> list[str]:
    """Every start in a lane of a kind in order that came before one with a smaller id had ended."""
    lanes: defaultdict[tuple[UUID, str | None], list[Start]] = defaultdict(list)
    for start in starts:
        if start.kind == kind:
            lanes[start.tenant, start.key].append(start)
    found = []
    for lane, group in lanes.items():
        for before, after in pairwise(group):
            if after.began < before.ended:
                found.append(f"{lane}: {after.job} began while {before.job} ran")
            if after.job < before.job:
                found.append(f"{lane}: {after.job} began after {before.job}")
    return found


def _groups(starts: Sequence[Start], rule: Rule) -> dict[object, list[Start]]:
    scope, name, _ = rule.place
    groups: defaultdict[object, list[Start]] = defaultdict(list)
    for start in starts:
        met, by = {
            Scope.QUEUE: (start.queue == name, None),
            Scope.KIND: (start.kind == name, None),
            Scope.LANE: (start.kind == name, (start.tenant, start.key)),
            Scope.TENANT: (name in (str(start.tenant), "*"), start.tenant),
        }[scope]
        if met:
            groups[by].append(start)
    return groups


def _applies(rule: Rule, start: Start, owned: dict[tuple[str, Measure], Rule]) -> bool:
    scope, name, measure = rule.place
    own = owned.get((str(start.tenant), measure)) if scope is Scope.TENANT and name == "*" else None
    return own is None or not own.may_stand(start.began)


def _judge_running(
    rule: Rule, group: Sequence[Start], owned: dict[tuple[str, Measure], Rule]
) -> list[str]:
    found = []
    open_: list[Start] = []
    for start in group:
        open_ = [other for other in open_ if other.ended > start.began]
        open_.append(start)
        most = rule.most(start.began)
        if most is not None and len(open_) > most and _applies(rule, start, owned):
            found.append(f"{rule.place}: {start.job} was number {len(open_)} of {most}")
    return found


def _judge_starts(
    rule: Rule, group: Sequence[Start], owned: dict[tuple[str, Measure], Rule]
) -> list[str]:
    found = []
    window = timedelta(seconds=rule.seconds)
    for place, start in enumerate(group):
        most = rule.most(start.began)
        if most is None or not _applies(rule, start, owned):
            continue
        first = max(rule.since(start.began), start.began - window)
        count = sum(1 for other in group[: place + 1] if other.began > first)
        if count > most:
            found.append(f"{rule.place}: {start.job} was start {count} of {most}")
    return found


_Judge = Callable[[Rule, Sequence[Start], dict[tuple[str, Measure], Rule]], list[str]]

_JUDGES: dict[Measure, _Judge] = {
    Measure.RUNNING: _judge_running,
    Measure.STARTS: _judge_starts,
    Measure.ORDER: lambda _rule, _group, _owned: [],
}


def count_by_kind(starts: Sequence[Start]) -> Counter[str]:
    """How many starts each kind had."""
    return Counter(start.kind for start in starts)
