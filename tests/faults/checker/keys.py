"""I8: at every moment one active job at most holds a unique key."""

from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from faults.checker.story import Story, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event

Key = tuple[str, UUID, str, str]

NOTIFICATION = "cycle.dispatched"


def keys(story: Story) -> Iterator[Violation]:
    """Follow who holds which key; whoever takes one had to wait until it was let go."""
    yield from _forgotten(story)
    holders: dict[Key, dict[int, Event]] = defaultdict(dict)
    evaluators: dict[int, str] = {}
    for before, event in story.steps:
        if event.evaluator is not None:
            evaluators[event.job_id] = event.evaluator
        evaluator = evaluators.get(event.job_id)
        held = set(held_keys(before, evaluator))
        holds = set(held_keys(event, evaluator))
        for key in held - holds:
            holders[key].pop(event.job_id, None)
        for key in holds - held:
            holders[key][event.job_id] = event
            if len(holders[key]) > 1:
                jobs = ", ".join(map(str, sorted(holders[key])))
                why = f"jobs {jobs} hold the {key[0]} {key[3]!r} of {key[2]} at once"
                yield Violation("I8", why, tell(*holders[key].values()))


def _forgotten(story: Story) -> Iterator[Violation]:
    """A job that was asked for under a key has that key when it comes."""
    asked = {note.ref: note for note in story.notes_of("intent") if note.fields.get("key")}
    for event in story.history.events:
        note = asked.get(event.ref) if event.op == "insert" and event.ref else None
        if note is None:
            continue
        key = note.fields["key"]
        if key not in (event.waiting_key, event.live_key, event.key):
            why = f"job {event.job_id} was enqueued under the key {key!r} and does not hold it"
            yield Violation("I8", why, tell(note, event))


def held_keys(event: Event | None, evaluator: str | None) -> Iterator[Key]:
    """Answer the keys that a row holds; the last part of each is its text."""
    if event is None or event.op == "delete":
        return
    place = (event.tenant_id, event.kind)
    if event.waiting_key is not None:
        yield "waiting key", *place, event.waiting_key
    if event.live_key is not None and event.is_live:
        yield "live key", *place, event.live_key
    if event.key is not None:
        yield "key", *place, event.key
    if event.kind == NOTIFICATION and evaluator is not None:
        yield "notification", *place, f"{event.aggregate_id} {evaluator}"
