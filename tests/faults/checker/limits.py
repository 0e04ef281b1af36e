"""I9: no more runs at once, and no more starts within a time, than a limit allows.

A limit is judged when something starts: what ran before it was set goes on and counts.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from faults.checker.gates import Gates, Key, applies_to, concerns, key_of
from faults.checker.story import Story, is_claim, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, LimitChange

SECOND = 1_000_000

Start = tuple[int, LimitChange | None, Event]
"""When something started, and the limit as it stood; none where it started before the limit."""


@dataclass(slots=True)
class Counted:
    """What is known about all limits at one moment."""

    gates: Gates = field(default_factory=Gates)
    limits: dict[int, LimitChange] = field(default_factory=dict)
    running: dict[int, Event] = field(default_factory=dict)
    starts: dict[tuple[int, Key], list[Start]] = field(default_factory=lambda: defaultdict(list))
    new: list[LimitChange] = field(default_factory=list)


def limits(story: Story) -> Iterator[Violation]:
    """Count again what every limit counts, start by start."""
    if not story.history.limits:
        return
    counted = Counted()
    for change in story.steps_among(story.history.limits):
        if isinstance(change, LimitChange):
            _set(counted, change)
            continue
        _, event = change
        if is_claim(event):
            _count_running(counted)
        counted.running.pop(event.job_id, None)
        if event.op != "delete" and event.state == "running":
            counted.running[event.job_id] = event
        if is_claim(event):
            yield from _judge(counted, event)
    for starts in counted.starts.values():
        yield from _windows(starts)


def _set(counted: Counted, change: LimitChange) -> None:
    counted.gates.change(change)
    if change.id not in counted.limits and change.measure == "starts":
        counted.new.append(change)
    counted.limits[change.id] = change


def _count_running(counted: Counted) -> None:
    """Give new limits the starts that still run: what is over does not count.

    Nothing starts between the limit and its commit, so whatever runs at the next start was
    running when the limit counted it; of what ended meanwhile nobody can say.
    """
    for limit in counted.new:
        for event in counted.running.values():
            if concerns(limit, event):
                key = key_of(limit, event)
                counted.starts[limit.id, key].append((event.started_at or 0, None, event))
    counted.new.clear()


def _judge(counted: Counted, event: Event) -> Iterator[Violation]:
    for gate in counted.gates.of(event):
        limit = gate.limit
        if limit.measure == "running":
            # The ones with the same key; running jobs are few at any moment.
            among = [one for one in counted.running.values() if applies_to(limit, one, gate.key)]
            if len(among) > limit.most:
                why = f"job {event.job_id} starts as one of {len(among)}, and {_name(limit)}"
                yield Violation("I9", why, tell(limit, *among))
        elif limit.measure == "starts":
            counted.starts[limit.id, gate.key].append((event.started_at or 0, limit, event))


def _windows(starts: list[Start]) -> Iterator[Violation]:
    ordered = sorted(starts, key=lambda start: (start[0], start[2].seq))
    for place, (at, limit, event) in enumerate(ordered):
        if limit is None or place < limit.most:
            continue
        width = round((limit.seconds or 0) * SECOND)
        # A microsecond is lost in rounding.
        if at - ordered[place - limit.most][0] < width - 1:
            among = [start[2] for start in ordered[place - limit.most : place + 1]]
            why = f"job {event.job_id} is start {len(among)} within the time, and {_name(limit)}"
            yield Violation("I9", why, tell(limit, *among))


def _name(limit: LimitChange) -> str:
    within = "" if limit.seconds is None else f" start within {limit.seconds} s"
    return f"{limit.most}{within} are allowed for {limit.scope} {limit.name}"
