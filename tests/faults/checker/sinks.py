"""I15: what was completed has reached its sink at least once, each time under one key."""

from collections.abc import Iterator

from faults.checker.story import Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Note


def sinks(story: Story) -> Iterator[Violation]:
    """Compare the sinks' notes with what was completed; repeats are allowed, and counted."""
    delivering = story.kinds_with("delivered")
    for job_id, notes in story.notes.items():
        delivered = [note for note in notes if note.what == "delivered"]
        if delivered and job_id not in story.events:
            why = f"job {job_id} was delivered, and nobody knows it"
            yield Violation("I15", why, tell(*delivered))
        used = sorted({str(note.fields.get("key")) for note in delivered})
        if len(used) > 1:
            why = f"job {job_id} was delivered under {len(used)} keys: {', '.join(used)}"
            yield Violation("I15", why, tell(*delivered))
    for job_id, events in story.events.items():
        done = [event for event in events if event.op == "update" and event.state == "completed"]
        if done and events[0].kind in delivering and not _deliveries(story.notes.get(job_id, [])):
            why = f"job {job_id} was completed, and nothing of it was delivered"
            yield Violation("I15", why, story.tell_job(job_id))


def count_repeats(notes: tuple[Note, ...]) -> int:
    """Answer how many deliveries were repeats: published, for it is not promised to be zero."""
    found: dict[int | None, int] = {}
    for note in notes:
        if note.what == "delivered":
            found[note.job_id] = found.get(note.job_id, 0) + 1
    return sum(count - 1 for count in found.values())


def _deliveries(notes: list[Note]) -> int:
    return sum(note.what == "delivered" for note in notes)
