"""I6: each change of a job follows the one before it, by an allowed transition."""

from collections.abc import Iterator

from faults.checker.story import FINAL, Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event

BEGINNINGS = frozenset(("insert", "found"))

STEPS = {
    "available": {"available", "running", "cancelled"},
    "running": {"running", "available", "completed", "failed", "cancelled"},
    # A finished job stays what it is, or an operator lets it start again.
    **{state: {state, "available"} for state in FINAL},
}


def transitions(story: Story) -> Iterator[Violation]:
    """Follow every job from its beginning to its end, or to now."""
    for events in story.events.values():
        before: Event | None = None
        for event in events:
            if why := _follow(before, event):
                yield Violation("I6", f"job {event.job_id} {why}", tell(_near(events, event)))
            before = event


def _follow(before: Event | None, event: Event) -> str:
    """Answer what is wrong with a change, or nothing."""
    if event.op in BEGINNINGS:
        return _begin(before, event)
    if before is None:
        return f"is changed in event {event.seq}, and nothing says how it came to be"
    if before.op == "delete":
        return f"is changed in event {event.seq} after it was deleted"
    if (event.old_state, event.old_attempt, event.old_worker, event.old_mark) != (
        before.state,
        before.attempt,
        before.worker,
        before.mark,
    ):
        return f"is changed in event {event.seq} from what no event left"
    if event.op == "delete":
        return ""
    return _step(before, event)


def _begin(before: Event | None, event: Event) -> str:
    if before is not None and before.op != "delete":
        return f"begins twice, again in event {event.seq}"
    if event.op == "insert" and (event.state, event.attempt, event.worker) != (
        "available",
        0,
        None,
    ):
        return f"begins {event.state} with attempt {event.attempt}, not available with none"
    return ""


def _step(before: Event, event: Event) -> str:
    if event.state not in STEPS[before.state]:
        return f"goes from {before.state} to {event.state}"
    if before.state in FINAL and event.state == "available":
        if event.requeued_at is None or event.requeued_at == before.requeued_at:
            return f"leaves {before.state} though no operator asked for it"
        return ""
    if before.state == event.state:
        held = (before.attempt, before.worker, before.excused, before.losses, before.started_at)
        holds = (event.attempt, event.worker, event.excused, event.losses, event.started_at)
        if held != holds:
            return f"stays {event.state} and its start is rewritten from {held} to {holds}"
    if (event.worker is not None) != (event.state == "running"):
        return f"is {event.state} with worker {event.worker}"
    return ""


def _near(events: list[Event], event: Event) -> list[Event]:
    """The change and what came right before it."""
    place = events.index(event)
    return events[max(0, place - 2) : place + 1]
