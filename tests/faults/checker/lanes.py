"""I10: in an ordered lane one job after the other, and first whoever was due first.

A job has its turn from its first start until it is final. What waits is compared only with
what had surely been committed when the claim began: an event whose snapshot knew it says so.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from uuid import UUID

from faults.checker.gates import lane_of_job
from faults.checker.story import Story, is_claim, is_requeue, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, LimitChange, has_seen

Lane = tuple[UUID, str, UUID]
Line = tuple[Lane, str, int]
"""A lane, as one queue and one priority see it."""

Place = tuple[int, int]
"""When a job is due, and its id."""


def lanes(story: Story) -> Iterator[Violation]:
    """Follow the lanes of kinds whose order counts."""
    orders = [change for change in story.history.limits if change.measure == "order"]
    if not orders:
        return
    following = _Following(story)
    for change in story.steps_among(orders):
        if isinstance(change, LimitChange):
            following.set_order(change)
        else:
            yield from following.follow(*change)


class _Following:
    """What is known at one place of the evidence."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._kinds: dict[str, int] = {}
        self._new: set[str] = set()
        self._last: dict[int, Event] = {}
        self._running: dict[Lane, set[int]] = defaultdict(set)
        self._turns: dict[Lane, int] = {}
        self._lines: dict[Line, list[Place]] = defaultdict(list)
        self._unseen: dict[int, list[int]] = defaultdict(list)
        self._seen_at: dict[int, int] = {}

    def set_order(self, change: LimitChange) -> None:
        """Let the order count for a kind from now on, or no more."""
        if change.op == "delete":
            if self._kinds.get(change.name) == change.id:
                del self._kinds[change.name]
            return
        if change.name in self._kinds:
            return
        self._kinds[change.name] = change.id
        self._new.add(change.name)
        for lane in [lane for lane in self._turns if lane[1] == change.name]:
            del self._turns[lane]

    def follow(self, before: Event | None, event: Event) -> Iterator[Violation]:
        """Judge one change, and remember it."""
        self._see(event)
        if is_claim(event) and self._new:
            self._count_running()
        if is_claim(event) and before is not None and event.kind in self._kinds:
            yield from self._judge(before, event)
        self._remember(before, event)

    def _count_running(self) -> None:
        """Whoever had started before the order counted has a turn only if it still runs.

        As in `limits`: of what ended while the order was being declared nobody can say.
        """
        for lane, jobs in self._running.items():
            if jobs and lane[1] in self._new:
                self._turns[lane] = min(jobs, key=lambda job: _place(self._last[job]))
        self._new.clear()

    def _see(self, event: Event) -> None:
        for xact in [xact for xact in self._unseen if has_seen(event.snapshot, xact)]:
            for seq in self._unseen.pop(xact):
                self._seen_at[seq] = event.at

    def _was_seen(self, change: Event, claim: Event) -> bool:
        """Whether a change had surely been committed when a claim began."""
        seen_at = self._seen_at.get(change.seq)
        return seen_at is not None and seen_at < claim.began_at

    def _judge(self, before: Event, claim: Event) -> Iterator[Violation]:
        lane = _lane(claim)
        if others := self._running[lane] - {claim.job_id}:
            among = [self._last[job] for job in sorted(others)]
            why = f"job {claim.job_id} starts beside {sorted(others)} of its ordered lane"
            yield Violation("I10", why, tell(*among, before, claim))
            return
        turn = self._turns.get(lane)
        if turn == claim.job_id:
            return
        holder = self._last[turn] if turn is not None else None
        if holder is not None and holder.is_live and self._had_turn(holder, claim):
            why = f"job {claim.job_id} starts, and it is the turn of job {turn}"
            yield Violation("I10", why, tell(holder, before, claim))
        elif first := self._first_before(before, claim):
            why = f"job {claim.job_id} starts before job {first.job_id}, which was due first"
            yield Violation("I10", why, tell(first, before, claim))

    def _had_turn(self, holder: Event, claim: Event) -> bool:
        requeues = [event for event in self._story.events[holder.job_id] if is_requeue(event)]
        made = [event for event in requeues if event.seq <= holder.seq]
        return not made or self._was_seen(made[-1], claim)

    def _first_before(self, before: Event, claim: Event) -> Event | None:
        """Answer a job that should have started instead."""
        for place in self._lines[_line(before)]:
            if place >= _place(before):
                return None
            other = self._last[place[1]]
            is_due = other.available_at <= claim.began_at
            if is_due and self._was_seen(other, claim) and not self._is_in_doubt(other, claim):
                return other
        return None

    def _is_in_doubt(self, other: Event, claim: Event) -> bool:
        """Whether somebody else was changing the row, and so held it, when the claim looked."""
        events = self._story.events[other.job_id]
        later = events[events.index(other) + 1 :]
        return bool(later) and not is_claim(later[0]) and later[0].began_at <= claim.at

    def _remember(self, before: Event | None, event: Event) -> None:
        if before is not None and before.op != "delete":
            self._running[_lane(before)].discard(event.job_id)
            if before.state == "available":
                line = self._lines[_line(before)]
                del line[bisect_left(line, _place(before))]
        self._last[event.job_id] = event
        if event.op == "delete":
            return
        if event.state == "running":
            self._running[_lane(event)].add(event.job_id)
            self._turns[_lane(event)] = event.job_id
        elif event.state == "available":
            insort(self._lines[_line(event)], _place(event))
            self._unseen[event.xact].append(event.seq)


def _lane(job: Event) -> Lane:
    return job.tenant_id, job.kind, lane_of_job(job)


def _line(job: Event) -> Line:
    # Before it is given its lane it cannot start, so it is nobody's predecessor there.
    return (job.tenant_id, job.kind, job.lane), job.queue, job.priority


def _place(job: Event) -> Place:
    return job.available_at, job.job_id
