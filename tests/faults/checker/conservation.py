"""I1: what was acknowledged is there, what was rolled back is not, and nobody else's is.

A job may leave the table in one way only: it has ended, and its retention is over.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from faults.checker.refusals import refusals
from faults.checker.story import BEGINNINGS, FINAL, Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, Note

SECOND = 1_000_000
MONTH = 27 * 24 * 3600 * SECOND
"""What ended within so long ago is of a month that every archive keeps."""


def conservation(story: Story) -> Iterator[Violation]:
    """Compare the witnesses' words, the events, and the rows at the end."""
    yield from _rows(story)
    yield from _deletions(story)
    yield from _archive(story)
    yield from _references(story)


def _rows(story: Story) -> Iterator[Violation]:
    for job_id, events in story.events.items():
        last = events[-1]
        rows = [job for job in story.jobs.get(job_id, ()) if not job.is_archived]
        kept = [job for job in story.jobs.get(job_id, ()) if job.is_archived]
        if last.op == "delete":
            if rows:
                yield _wrong(f"job {job_id} was deleted, and is there", story.tell_job(job_id))
        elif [(job.state, job.attempt) for job in rows] != [(last.state, last.attempt)]:
            why = f"job {job_id} should be {last.state}, and the table says {rows or 'nothing'}"
            yield _wrong(why, story.tell_job(job_id))
        elif any(job.attempt == last.attempt for job in kept):
            yield _wrong(f"job {job_id} is in table and archive", story.tell_job(job_id))
    for job_id, jobs in story.jobs.items():
        if job_id not in story.events and any(not job.is_archived for job in jobs):
            yield _wrong(f"job {job_id} is there, and no event says how it came", tell(*jobs))


def _deletions(story: Story) -> Iterator[Violation]:
    for before, event in story.steps:
        if event.op == "delete":
            early = event.prune_at is None or event.prune_at > event.at
            if event.old_state not in FINAL:
                why = f"job {event.job_id} was deleted while it was {event.old_state}"
            elif early:
                why = f"job {event.job_id} was deleted before its retention was over"
            else:
                continue
            yield _wrong(why, tell(before, event))
        elif event.prune_at and event.finished_at and event.prune_at < event.finished_at - SECOND:
            why = f"job {event.job_id} may go before it ended"
            yield _wrong(why, tell(before, event))


def _archive(story: Story) -> Iterator[Violation]:
    """While the archive is on, what leaves the table arrives there."""
    for event in story.history.events:
        if event.op != "delete" or event.old_state not in FINAL:
            continue
        switches = story.history.archiving
        before = [one for one in switches if one.seq < event.seq]
        is_on = bool(before) and all(one.is_on for one in switches[len(before) - 1 :])
        # A batch that began when the switch was just being turned may not have known.
        if not is_on or before[-1].at > event.began_at - SECOND:
            continue
        rows = [job.attempt for job in story.jobs.get(event.job_id, ()) if job.is_archived]
        if event.attempt not in rows and (event.finished_at or 0) > event.at - MONTH:
            yield _wrong(f"job {event.job_id} is in neither table nor archive", tell(event))


def _references(story: Story) -> Iterator[Violation]:
    present: dict[str, list[Event]] = defaultdict(list)
    for event in story.history.events:
        if event.op in BEGINNINGS and event.ref is not None:
            present[event.ref].append(event)
    intents = {note.ref: note for note in story.notes_of("intent") if note.ref is not None}
    units: dict[str, list[Note]] = defaultdict(list)
    for note in intents.values():
        units[_unit(note)].append(note)
    for ref, events in present.items():
        if len(events) > 1:
            yield _wrong(f"{ref} is there {len(events)} times", tell(intents.get(ref), *events))
        if intents and ref not in intents and any(event.op == "insert" for event in events):
            yield _wrong(f"{ref} is there, and nobody enqueued it", tell(*events))
    for note in story.notes_of("enqueued", "rolled_back", "unknown"):
        members = [intents[note.ref]] if note.ref in intents else units.get(_unit(note), [note])
        yield from _answer(note, members, present)
    yield from refusals(story, intents, present)
    for members in units.values():
        yield from _together(members, present)


def _unit(note: Note) -> str:
    return note.fields.get("unit") or note.ref or ""


def _answer(
    note: Note, members: Iterable[Note], present: dict[str, list[Event]]
) -> Iterator[Violation]:
    """Hold what the enqueuer was told against what is there."""
    for intent in members:
        events = present.get(intent.ref or "", [])
        if note.what == "rolled_back" and events:
            yield _wrong(f"{intent.ref} was rolled back, and is there", tell(intent, note, *events))
        if note.what != "enqueued" or note.fields.get("created") is False:
            # Who was refused is judged in `refusals`.
            continue
        if note.ref is None and intent.fields.get("key"):
            # The answer is about a whole transaction, and this one may have been refused.
            continue
        if not events:
            yield _wrong(f"{intent.ref} was acknowledged, and is not there", tell(intent, note))
        elif note.job_id is not None and note.ref and events[0].job_id != note.job_id:
            why = f"{intent.ref} was acknowledged as job {note.job_id}"
            yield _wrong(f"{why}, and is job {events[0].job_id}", tell(intent, note, *events))


def _together(members: list[Note], present: dict[str, list[Event]]) -> Iterator[Violation]:
    """What was enqueued in one transaction is there as a whole, or not at all."""
    # What had a key may have been refused while the others went in.
    plain = [note for note in members if not note.fields.get("key")]
    there = {note.ref: present[note.ref][0] for note in plain if note.ref in present}
    if there and len(there) < len(plain):
        missing = sorted(str(note.ref) for note in plain if note.ref not in there)
        why = f"of one transaction {', '.join(sorted(map(str, there)))} are there"
        yield _wrong(f"{why}, {', '.join(missing)} are not", tell(*plain, *there.values()))
    elif len({event.xact for event in there.values()}) > 1:
        why = f"{', '.join(sorted(map(str, there)))} were one transaction, and came in several"
        yield _wrong(why, tell(*plain, *there.values()))


def _wrong(why: str, lines: list[str]) -> Violation:
    return Violation("I1", why, lines)
