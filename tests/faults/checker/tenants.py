"""I14: whose job it is never changes: not on its row, its effects, its history, its starts."""

from collections.abc import Iterator

from faults.checker.story import Piece, Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event


def tenants(story: Story) -> Iterator[Violation]:
    """Compare the tenant of everything that is about a job with the one it began with."""
    for job_id, events in story.events.items():
        first = events[0]
        for event in events:
            if why := _judge(first, event):
                yield Violation("I14", f"job {job_id} {why}", tell(first, event))
        others: list[Piece] = [*story.effects.get(job_id, ()), *story.attempts.get(job_id, ())]
        others += [note for note in story.notes.get(job_id, ()) if note.tenant_id is not None]
        for other in [*others, *story.jobs.get(job_id, ())]:
            if other.tenant_id != first.tenant_id:
                why = f"belongs to {first.tenant_id}, and something of it to {other.tenant_id}"
                yield Violation("I14", f"job {job_id} {why}", tell(first, other))
    asked = {note.ref: note for note in story.notes_of("intent") if note.tenant_id is not None}
    for event in story.history.events:
        note = asked.get(event.ref) if event.op == "insert" and event.ref else None
        if note is not None and note.tenant_id != event.tenant_id:
            why = f"was enqueued for {note.tenant_id} and belongs to {event.tenant_id}"
            yield Violation("I14", f"job {event.job_id} {why}", tell(note, event))


def _judge(first: Event, event: Event) -> str:
    if first.tenant_id != event.tenant_id:
        return f"goes from tenant {first.tenant_id} to {event.tenant_id}"
    if event.scope and event.scope != str(event.tenant_id):
        return f"of {event.tenant_id} is changed by a transaction of tenant {event.scope}"
    return ""
