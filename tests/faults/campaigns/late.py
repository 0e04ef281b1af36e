"""What came for a start that others had taken back, and what of it was accepted.

A late end need not bear the number of the start that it is about: an engine without a fence
writes it over the start of whoever has the job now, or over the job while it waits. So it is
known by who wrote it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from faults.checker.fencing import BY_HANDLERS, BY_SETTLER, has_answered, owners_of
from faults.checker.story import Story, is_end, is_loss
from faults.evidence import Effect, Event, History, Note


@dataclass(frozen=True, slots=True)
class Late:
    """What came for a start that others had taken back.

    Attributes:
        answers: Handlers that came to their end although their start had been taken back.
        handed_back: Ends that were written when the session had ended and nobody had taken
            the job back yet: its row still named the session, so they are accepted.
        accepted: Changes and effects that were written when somebody had: there must be none.
    """

    answers: int
    handed_back: int
    accepted: list[Event | Effect]


def find_late(history: History) -> Late:
    """Compare everything with when each start was taken back, and each session ended."""
    story = Story(history)
    losses: dict[int, list[Event]] = defaultdict(list)
    for before, event in story.steps:
        if is_loss(before, event):
            losses[event.job_id].append(event)
    taken = {(loss.job_id, loss.attempt): loss for some in losses.values() for loss in some}
    ends = [event for event in history.events if is_end(event)]
    return Late(
        sum(_is_late_answer(note, taken) for note in history.notes),
        sum(_is_handed_back(story, end) for end in ends),
        [
            *_changes(story, losses),
            *(
                effect
                for effect in history.effects
                if (loss := taken.get((effect.job_id, effect.attempt))) and loss.seq < effect.seq
            ),
        ],
    )


def _is_late_answer(note: Note, taken: dict[tuple[int, int], Event]) -> bool:
    loss = taken.get((note.job_id or 0, note.attempt or 0))
    return note.what == "end" and loss is not None and loss.at < note.at


def _changes(story: Story, losses: dict[int, list[Event]]) -> Iterator[Event]:
    """Answer the changes that a former holder made, or that ended a start for a second time."""
    owners, witnessed = owners_of(story), story.kinds_with("end")
    for job_id, some in losses.items():
        ended: set[int] = set()
        for event in story.events[job_id]:
            if is_end(event) and event.attempt in ended:
                yield event
            elif own := owners.get(event.program):
                was_taken = any(loss.seq < event.seq and loss.old_worker in own for loss in some)
                # It may hold the job again, and then an end is of this start or of the former.
                is_own = event.old_worker in own and (
                    event.kind not in witnessed or has_answered(story, event)
                )
                if event.op == "update" and was_taken and not is_own:
                    yield event
            ended |= {loss.attempt for loss in some if loss is event}


def _is_handed_back(story: Story, end: Event) -> bool:
    session = story.sessions.get(end.old_worker or 0)
    is_own = end.program.startswith((BY_SETTLER, BY_HANDLERS))
    return is_own and session is not None and (session.end_seq or end.seq) < end.seq
