"""I1 for keys: who was refused was refused by a job that held the key at that time.

An answer that names a holder is no proof of one: a job that is lost could be answered for
in the same words. So the holder is looked for in the events, pruned and expired ones too.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from faults.checker.keys import NOTIFICATION, held_keys
from faults.checker.story import Story, is_before, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, Note, has_seen


@dataclass(frozen=True, slots=True)
class Hold:
    """A key in the hands of one job.

    Attributes:
        since: The change by which it took the key.
        until: The change by which it let go; None where it never did.
    """

    since: Event
    until: Event | None = None


class Holds:
    """Who held which key, and from when to when."""

    def __init__(self, story: Story) -> None:
        self._events = sorted(story.history.events, key=lambda event: event.at)
        self._times = [event.at for event in self._events]
        self._by_text: dict[str, list[Hold]] = defaultdict(list)
        for job_id in story.events:
            self._follow(story, job_id)

    def _follow(self, story: Story, job_id: int) -> None:
        open_: dict[str, Event] = {}
        for _, event in story.steps_of(job_id):
            holds = {key[3] for key in held_keys(event, None)}
            for text in open_.keys() - holds:
                self._by_text[text].append(Hold(open_.pop(text), event))
            for text in holds - open_.keys():
                open_[text] = event
        for text, since in open_.items():
            self._by_text[text].append(Hold(since))

    def of(self, intent: Note) -> list[Hold]:
        """Answer who ever held the key that somebody asked for."""
        kind, tenant = intent.fields.get("kind"), intent.tenant_id
        return [
            hold
            for hold in self._by_text.get(intent.fields.get("key") or "", ())
            if kind in (None, hold.since.kind) and tenant in (None, hold.since.tenant_id)
        ]

    def may_refuse(self, hold: Hold, intent: Note, answer: Note) -> bool:
        """Whether a job can have held the key at some time between a question and its answer."""
        if hold.since.op != "found" and is_before(answer.at, hold.since.at):
            return False
        return hold.until is None or not self._is_over(hold.until, intent.at)

    def _is_over(self, until: Event, at: int) -> bool:
        """Whether others had seen by then that the key was let go.

        It is let go when its transaction commits, which may be long after the change was written.
        """
        if not is_before(until.at, at):
            return False
        first, last = bisect_left(self._times, until.at), bisect_left(self._times, at)
        return any(
            has_seen(event.snapshot, until.xact) for event in reversed(self._events[first:last])
        )


def refusals(
    story: Story, intents: Mapping[str, Note], present: Mapping[str, list[Event]]
) -> Iterator[Violation]:
    """Hold every answer that refused a job against who held its key.

    Args:
        story: The evidence.
        intents: What was asked for, by reference.
        present: What came of it, by reference.
    """
    answers = [
        note
        for note in story.notes_of("enqueued")
        if note.fields.get("created") is False and note.ref in intents
    ]
    if not answers:
        return
    holds = Holds(story)
    for answer in answers:
        intent = intents[answer.ref or ""]
        if events := present.get(answer.ref or "", []):
            yield _wrong(f"{intent.ref} was refused, and is there", intent, answer, *events)
        yield from _refused(holds, intent, answer)


def _refused(holds: Holds, intent: Note, answer: Note) -> Iterator[Violation]:
    if answer.job_id is None and intent.fields.get("kind") == NOTIFICATION:
        # Its application has an index of its own, and what that refuses names nobody.
        return
    found = [hold for hold in holds.of(intent) if answer.job_id in (None, hold.since.job_id)]
    if any(holds.may_refuse(hold, intent, answer) for hold in found):
        return
    key, holder = intent.fields.get("key"), answer.job_id or "nobody by name"
    why = f"{intent.ref} was refused the key {key!r} for {holder}, and nobody held it then"
    ends = [end for hold in found for end in (hold.since, hold.until)]
    yield _wrong(why, intent, answer, *ends)


def _wrong(why: str, *pieces: Event | Note | None) -> Violation:
    return Violation("I1", why, tell(*pieces))
