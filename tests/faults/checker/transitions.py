"""I6: each change of a job follows the one before it, by an allowed transition."""

from collections.abc import Iterator

from faults.checker.story import BEGINNINGS, FINAL, Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event

STEPS = {
    "available": {"available", "running", "cancelled"},
    "running": {"running", "available", *FINAL},
    # A finished job stays what it is, or an operator lets it start again.
    **{state: {state, "available"} for state in FINAL},
}


def transitions(story: Story) -> Iterator[Violation]:
    """Follow every job from its beginning to its end, or to now."""
    for job_id in story.events:
        earlier: Event | None = None
        for before, event in story.steps_of(job_id):
            if why := _follow(before, event):
                yield Violation("I6", f"job {job_id} {why}", tell(earlier, before, event))
            earlier = before


def _follow(before: Event | None, event: Event) -> str:
    """Answer what is wrong with a change, or nothing."""
    if event.op in BEGINNINGS:
        return _begin(before, event)
    if before is None:
        return f"is changed in event {event.seq}, and nothing says how it came to be"
    if before.op == "delete":
        return f"is changed in event {event.seq} after it was deleted"
    left = (before.state, before.attempt, before.worker, before.mark)
    if (event.old_state, event.old_attempt, event.old_worker, event.old_mark) != left:
        return f"is changed in event {event.seq} from what no event left"
    return "" if event.op == "delete" else _step(before, event)


def _begin(before: Event | None, event: Event) -> str:
    if before is not None and before.op != "delete":
        return f"begins twice, again in event {event.seq}"
    begins = (event.state, event.attempt, event.worker)
    if event.op == "insert" and begins != ("available", 0, None):
        return f"begins {event.state} with attempt {event.attempt}"
    return ""


def _step(before: Event, event: Event) -> str:
    if event.state not in STEPS[before.state]:
        return f"goes from {before.state} to {event.state}"
    if before.state in FINAL and event.state == "available":
        asked = event.requeued_at is not None and event.requeued_at != before.requeued_at
        return "" if asked else f"leaves {before.state} though no operator asked for it"
    if before.state == event.state:
        # Another attempt or worker is another start, which is a matter of I3 and I4.
        held = (before.excused, before.losses, before.started_at, before.finished_at)
        holds = (event.excused, event.losses, event.started_at, event.finished_at)
        if held != holds and (before.attempt, before.worker) == (event.attempt, event.worker):
            return f"stays {event.state} and its counts or times are rewritten"
    if (event.worker is not None) != (event.state == "running"):
        return f"is {event.state} with worker {event.worker}"
    return ""
