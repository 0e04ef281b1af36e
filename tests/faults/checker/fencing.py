"""I5: an effect and an end belong to the token (attempt and session) that was valid."""

from collections import defaultdict
from collections.abc import Iterator

from faults.checker.story import Story, is_before, is_end, is_requeue, tell
from faults.checker.violation import Violation
from faults.evidence.records import Effect, Event

BY_HANDLERS = "relevo handlers "
BY_SETTLER = "relevo settle "


def fencing(story: Story) -> Iterator[Violation]:
    """Compare every effect with the completion beside it, and every end with who may write it."""
    for job_id, effects in story.effects.items():
        yield from _tokens(story, job_id, effects)
        yield from _once(story, job_id, effects)
    owners = owners_of(story)
    ended_kinds = story.kinds_with("end")
    for before, event in story.steps:
        if not is_end(event):
            continue
        if (owned := owners.get(event.program)) and event.old_worker not in owned:
            why = f"was held by session {event.old_worker} and ended by {event.program}"
            yield Violation("I5", f"job {event.job_id} {why}", tell(before, event))
        elif event.kind in ended_kinds and not has_answered(story, event):
            why = f"was completed before attempt {event.attempt} had answered"
            notes = [note for note in story.notes.get(event.job_id, ()) if note.what == "end"]
            yield Violation("I5", f"job {event.job_id} {why}", tell(before, event, *notes))


def _tokens(story: Story, job_id: int, effects: list[Effect]) -> Iterator[Violation]:
    completions = {
        event.xact: event
        for event in story.events.get(job_id, ())
        if is_end(event) and event.state == "completed"
    }
    for effect in effects:
        done = completions.get(effect.xact)
        if done is None:
            why = f"has an effect {effect.key} that its completion was not committed with"
            yield Violation("I5", f"job {job_id} {why}", story.tell_job(job_id))
        elif (done.attempt, done.old_worker) != (effect.attempt, effect.session):
            why = (
                f"has an effect of attempt {effect.attempt} in session {effect.session},"
                f" and attempt {done.attempt} in session {done.old_worker} was valid"
            )
            yield Violation("I5", f"job {job_id} {why}", tell(effect, done))


def _once(story: Story, job_id: int, effects: list[Effect]) -> Iterator[Violation]:
    """One effect for each key, and one more each time that an operator asks for it again."""
    requeues = [event.seq for event in story.events.get(job_id, ()) if is_requeue(event)]
    found: dict[tuple[str, int], list[Effect]] = defaultdict(list)
    for effect in effects:
        found[effect.key, sum(seq < effect.seq for seq in requeues)].append(effect)
    for (key, _), same in found.items():
        if len(same) > 1:
            yield Violation("I5", f"job {job_id} has {len(same)} effects {key}", tell(*same))


def owners_of(story: Story) -> dict[str, set[int]]:
    """Answer which sessions speak through each connection that ends starts, by its program."""
    owners: dict[str, set[int]] = defaultdict(set)
    for session in story.history.sessions:
        for purpose in (BY_HANDLERS, BY_SETTLER):
            owners[f"{purpose}{session.name}"[:63]].add(session.id)
    return owners


def has_answered(story: Story, event: Event) -> bool:
    """Whether a handler had answered what the settler wrote as its success."""
    if event.state != "completed" or not event.program.startswith(BY_SETTLER):
        return True
    return any(
        note.what == "end" and note.attempt == event.attempt and not is_before(event.at, note.at)
        for note in story.notes.get(event.job_id, ())
    )
