"""I7: what had returned before something else began comes before it.

With the versions of I6 this is the order of each job as its users saw it: an enqueue lies
between its intent and its answer, and a start follows the claim that allowed it.
"""

from collections.abc import Iterator

from faults.checker.story import BEGINNINGS, Story, is_before, is_claim, moment, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, Note


def realtime(story: Story) -> Iterator[Violation]:
    """Compare the witnesses' clocks with the database's; all of them are one machine's."""
    inserted = {event.ref: event for event in story.history.events if event.op == "insert"}
    for note in story.notes_of("intent", "enqueued", "rolled_back"):
        event = inserted.get(note.ref) if note.ref else None
        if event is None:
            continue
        if note.what == "intent" and is_before(event.at, note.at):
            yield _wrong(f"{note.ref} is there before anybody wanted it", note, event)
        if note.what == "enqueued" and is_before(note.at, event.at):
            yield _wrong(f"{note.ref} was acknowledged before it was written", note, event)
    yield from _leases(story)
    for job_id, notes in story.notes.items():
        events = story.events.get(job_id, [])
        begun = {
            event.attempt: event
            for event in events
            if is_claim(event) or (event.op in BEGINNINGS and event.state == "running")
        }
        for note in notes:
            if note.what in ("start", "end", "delivered") and note.attempt is not None:
                claim = begun.get(note.attempt)
                if claim is not None and is_before(note.at, claim.at):
                    why = f"job {job_id} saw {note.what} of attempt {note.attempt} before its claim"
                    yield _wrong(why, note, claim)
        yield from _ends(job_id, notes)


def _leases(story: Story) -> Iterator[Violation]:
    """A session may rely on a lease for as long as it was told, from when it asked."""
    for note in story.notes_of("renewed"):
        session = story.sessions.get(note.fields["session"])
        until = note.fields["until"]
        if session is not None and session.ended_at and is_before(session.ended_at, until):
            why = f"session {session.id} ended, and its lease was renewed until {moment(until)}"
            yield Violation("I7", why, tell(note, session))


def _ends(job_id: int, notes: list[Note]) -> Iterator[Violation]:
    starts = {(note.source, note.attempt): note for note in notes if note.what == "start"}
    for note in notes:
        start = starts.get((note.source, note.attempt))
        # One process, one file: the order of its lines is the order of what it did.
        if note.what == "end" and start is not None and note.number < start.number:
            yield _wrong(
                f"job {job_id} ended attempt {note.attempt} before it started", start, note
            )


def _wrong(why: str, *pieces: Event | Note) -> Violation:
    return Violation("I7", why, tell(*pieces))
