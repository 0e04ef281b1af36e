"""I3: attempts go up one by one, are no more than allowed, and end once each."""

from collections import Counter
from collections.abc import Iterator

from faults.checker.story import BEGINNINGS, Story, is_claim, is_end, is_requeue, tell
from faults.checker.violation import Violation
from faults.evidence.records import Attempt, Event, Note

COUNTS = {(0, 0), (1, 0), (0, 1)}
"""How much an end may add to the excused starts and to the losses."""


def attempts(story: Story) -> Iterator[Violation]:
    """Count every start, its end, and what the engine's history and the witnesses say of it."""
    yield from _asked(story)
    covered = story.kinds_with("start")
    for job_id, events in story.events.items():
        for before, event in story.steps_of(job_id):
            if before is not None and (why := _count(before, event)):
                yield Violation("I3", f"job {job_id} {why}", tell(before, event))
        yield from _history(story, job_id, events)
        yield from _starts(story, job_id, events, is_covered=events[0].kind in covered)
    for job_id, notes in story.notes.items():
        if job_id not in story.events and (start := _first(notes, "start")):
            yield Violation("I3", f"job {job_id} was started, and nobody knows it", tell(start))


def _asked(story: Story) -> Iterator[Violation]:
    """A claim starts no more than the session had slots for."""
    for note in story.notes_of("claimed"):
        asked, given = note.fields["asked"], note.fields["jobs"]
        if len(given) > asked:
            why = f"{len(given)} jobs were started, and a session had asked for {asked}"
            claims = [one for job in given for one in story.events.get(job, ()) if is_claim(one)]
            yield Violation("I3", why, tell(note, *claims))


def _count(before: Event, event: Event) -> str:
    """Answer what is wrong with the counts of one change, or nothing."""
    if event.op != "update":
        return ""
    added = (event.excused - before.excused, event.losses - before.losses)
    if is_claim(event):
        return _count_start(before, event, added)
    if is_end(event):
        return _count_end(before, event, added)
    return _count_rest(before, event, added)


def _count_rest(before: Event, event: Event, added: tuple[int, int]) -> str:
    if event.attempt != before.attempt and event.old_state != "running":
        return f"is {event.state} and its attempt goes from {before.attempt} to {event.attempt}"
    if is_requeue(event):
        spent = event.attempt - event.excused
        return f"starts anew with {spent} starts spent" if spent else ""
    if event.state != before.state and added != (0, 0):
        return f"adds {added} to its excused starts and losses, and no start had ended"
    return ""


def _count_start(before: Event, event: Event, added: tuple[int, int]) -> str:
    spent = event.attempt - event.excused
    if event.attempt != before.attempt + 1:
        return f"starts as attempt {event.attempt} after attempt {before.attempt}"
    if spent > event.max_attempts:
        return f"starts {spent} times, and {event.max_attempts} are allowed"
    if added != (0, 0):
        return f"adds {added} to its excused starts and losses at a start"
    return ""


def _count_end(before: Event, event: Event, added: tuple[int, int]) -> str:
    if event.attempt != before.attempt:
        return f"ends attempt {event.attempt}, and attempt {before.attempt} had started"
    if added not in COUNTS:
        return f"adds {added} to its excused starts and losses at one end"
    return ""


def _outcomes(before: Event, end: Event) -> set[str]:
    """Answer what the engine's history may call an end."""
    if end.state != "available":
        return {end.state}
    if end.losses > before.losses:
        return {"lost"}
    if end.excused > before.excused:
        # A cancel that came too late is handed back under its own name.
        return {"released", "snoozed", "cancelled"}
    return {"retried"}


def _history(story: Story, job_id: int, events: list[Event]) -> Iterator[Violation]:
    if any(event.op == "delete" for event in events):
        # Its history went with it.
        return
    ends = {event.attempt: (before, event) for before, event in _ends(story, job_id)}
    first = events[0]
    # What had ended before the evidence began is not judged.
    since = first.attempt if first.op == "found" and first.state == "running" else first.attempt + 1
    rows: dict[int, Attempt] = {}
    for row in story.attempts.get(job_id, ()):
        if row.attempt < since:
            continue
        if row.attempt in rows:
            yield _wrong(job_id, f"has two ends of attempt {row.attempt}", rows[row.attempt], row)
        rows[row.attempt] = row
        if row.attempt not in ends:
            yield _wrong(job_id, f"has an end of attempt {row.attempt} that never came", row)
            continue
        before, end = ends[row.attempt]
        if row.outcome not in _outcomes(before, end):
            yield _wrong(job_id, f"ended otherwise than as {row.outcome}", before, end, row)
    again = {event.attempt for event in events if is_requeue(event)}
    for number, (before, end) in ends.items():
        # A success is written down only when the job is to start again.
        if number not in rows and (end.state != "completed" or number in again):
            yield _wrong(job_id, f"has no record of the end of attempt {number}", before, end)


def _ends(story: Story, job_id: int) -> Iterator[tuple[Event, Event]]:
    for before, event in story.steps_of(job_id):
        if before is not None and is_end(event):
            yield before, event


def _starts(
    story: Story, job_id: int, events: list[Event], *, is_covered: bool
) -> Iterator[Violation]:
    starts = [note for note in story.notes.get(job_id, ()) if note.what == "start"]
    claims = {event.attempt: event for event in events if is_claim(event)}
    first = events[0]
    if first.op in BEGINNINGS and first.state == "running":
        claims[first.attempt] = first
    for attempt, count in Counter(note.attempt for note in starts).items():
        seen = [note for note in starts if note.attempt == attempt]
        if count > 1:
            yield _wrong(job_id, f"started {count} times as attempt {attempt}", *seen)
        if attempt not in claims:
            yield _wrong(job_id, f"started as attempt {attempt}, which nobody claimed", *seen)
    started = {note.attempt for note in starts}
    for event in events:
        completed = is_end(event) and event.state == "completed"
        if is_covered and completed and event.attempt not in started:
            claim = claims.get(event.attempt)
            yield _wrong(job_id, "completed, and no handler had started", claim, event)


def _first(notes: list[Note], what: str) -> Note | None:
    return next((note for note in notes if note.what == what), None)


def _wrong(job_id: int, why: str, *pieces: Event | Note | Attempt | None) -> Violation:
    return Violation("I3", f"job {job_id} {why}", tell(*pieces))
