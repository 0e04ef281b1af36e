"""I13: a cycle is activated as a whole or not at all.

Proved twice. By transactions: after each one a cycle is a draft with nothing but drafts, or
it is active with none, and its notifications came in the transaction of its activation. And
by samples: what others saw while it happened says the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from faults.checker.keys import NOTIFICATION
from faults.checker.story import BEGINNINGS, Story, is_requeue, tell
from faults.checker.violation import Violation
from faults.evidence.records import CycleChange, Event, Note

OPEN = frozenset(("draft", "cancelled"))


@dataclass(slots=True)
class Standing:
    """How a cycle stands after a transaction."""

    states: Counter[str] = field(default_factory=Counter)
    evaluations: Counter[str] = field(default_factory=Counter)
    asked: frozenset[str] = frozenset()

    @property
    def state(self) -> str:
        """The cycle's own state."""
        return next((state for state, rows in self.states.items() if rows > 0), "gone")


def cycles(story: Story) -> Iterator[Violation]:
    """Look at every cycle after every transaction, and at every sample."""
    changes: dict[UUID, list[CycleChange]] = defaultdict(list)
    for change in story.history.cycles:
        changes[change.cycle_id].append(change)
    jobs: dict[str, list[Event]] = defaultdict(list)
    for event in story.history.events:
        if event.kind == NOTIFICATION:
            jobs[event.aggregate_id or ""].append(event)
    for cycle_id, found in changes.items():
        yield from _transactions(cycle_id, found, jobs.get(str(cycle_id), []))
    for note in story.notes_of("sample"):
        yield from _sample(note)


def _transactions(
    cycle_id: UUID, changes: list[CycleChange], events: list[Event]
) -> Iterator[Violation]:
    # The cycle's row is locked by whoever changes it, so its transactions are in order.
    ends = {change.xact: change.seq for change in changes}
    activations: dict[int, list[CycleChange]] = {}
    standing = Standing()
    for xact in sorted(ends, key=lambda one: ends[one]):
        group = [change for change in changes if change.xact == xact]
        was = standing.state
        _apply(standing, group)
        if why := _half(standing):
            yield _wrong(cycle_id, why, *group)
        if was == "draft" and standing.state == "active":
            activations[xact] = group
            yield from _activated(cycle_id, standing, group, events)
        if standing.state == "draft":
            yield from _withdrawn(cycle_id, group, events, ends[xact])
    for event in events:
        if (event.op == "insert" or is_requeue(event)) and event.xact not in activations:
            yield _wrong(cycle_id, "has a notification that no activation wrote", event)


def _apply(standing: Standing, group: list[CycleChange]) -> None:
    for change in group:
        counts = standing.states if change.what == "cycle" else standing.evaluations
        counts[change.state] += change.come - change.gone
        if change.what == "evaluations" and change.state == "active" and change.come:
            standing.asked = frozenset(map(str, change.evaluators))


def _half(standing: Standing) -> str:
    drafts = standing.evaluations["draft"]
    others = sum(standing.evaluations.values()) - drafts - standing.evaluations["cancelled"]
    if standing.state in OPEN and others:
        return f"is {standing.state} with {others} evaluations that are no drafts"
    if standing.state not in (*OPEN, "gone") and drafts:
        return f"is {standing.state} with {drafts} evaluations that are drafts"
    return ""


def _activated(
    cycle_id: UUID, standing: Standing, group: list[CycleChange], events: list[Event]
) -> Iterator[Violation]:
    """Each who is asked has one notification: of this transaction, or one that was delivered."""
    xact = group[0].xact
    until = max([group[-1].seq, *(event.seq for event in events if event.xact == xact)])
    people, rows = _rows(events, until)
    told = {
        people[job_id]
        for job_id, row in rows.items()
        if row.op != "delete" and (row.is_live or row.state == "completed")
    }
    if missing := sorted(standing.asked - told):
        why = f"was activated without a notification for {', '.join(missing[:3])}"
        yield _wrong(cycle_id, f"{why} ({len(missing)} of {len(standing.asked)})", *group)
    here = {people[job_id] for job_id, row in rows.items() if row.xact == xact}
    if extra := sorted(here - standing.asked):
        why = f"was activated with a notification for {', '.join(extra[:3])}, who is not asked"
        yield _wrong(cycle_id, why, *group)


def _withdrawn(
    cycle_id: UUID, group: list[CycleChange], events: list[Event], until: int
) -> Iterator[Violation]:
    """While it is a draft nothing of it may still be sent."""
    xact = group[-1].xact
    _, rows = _rows(events, max([until, *(one.seq for one in events if one.xact == xact)]))
    waiting = [
        row
        for row in rows.values()
        if row.is_live and row.cancel_requested_at is None and row.op != "delete"
    ]
    if waiting:
        why = f"is a draft with {len(waiting)} notifications that are still to be sent"
        yield _wrong(cycle_id, why, *group, *waiting)


def _rows(events: list[Event], until: int) -> tuple[dict[int, str], dict[int, Event]]:
    """Answer whom each notification is for, and how each stood at a place of the evidence."""
    people: dict[int, str] = {}
    rows: dict[int, Event] = {}
    for event in events:
        if event.op in BEGINNINGS:
            people[event.job_id] = event.evaluator or "nobody"
        if event.seq <= until:
            rows[event.job_id] = event
    return people, rows


def _sample(note: Note) -> Iterator[Violation]:
    """What one statement saw of one cycle: see `faults.evidence.samples`."""
    seen = note.fields
    state, drafts, others = seen["state"], seen["drafts"], seen["others"]
    if state in OPEN and (others or seen["live"]):
        why = f"was seen {state} with {others} active evaluations and {seen['live']} notifications"
    elif state not in OPEN and drafts:
        why = f"was seen {state} with {drafts} drafts"
    elif state == "active" and seen["told"] != seen["asked"]:
        why = f"was seen active with {seen['told']} notifications for {seen['asked']} people"
    else:
        return
    yield Violation("I13", f"cycle {seen['cycle_id']} {why}", tell(note))


def _wrong(cycle_id: UUID, why: str, *pieces: CycleChange | Event) -> Violation:
    return Violation("I13", f"cycle {cycle_id} {why}", tell(*pieces))
