"""Which lanes a worker claims from next, and from where in each: its memory of one queue.

Two kinds of claim share it. The sweep walks every lane from its oldest row and finds
what nobody has remembered; the round goes over remembered lanes and begins in each
behind the floor, the place that the last claim reached. Dead index entries pile up before
the floor where a long transaction pins them, and so do jobs that this worker cannot run:
the round never reads them, and the sweep is rare enough to be allowed to.

A walk is made of steps, each one sweep that begins where the last one was full. A tenant
that fills a step alone waits for the others before its next lanes are met.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from relevo.model.ids import NO_LANE
from relevo.model.job import ClaimedJob
from relevo.model.lanes import DueLane, Lane, Place, Round
from relevo.model.pace import LOOK_EVERY, LOOK_SOON, SWEEP_EVERY, Pace, RareLook

PRIORITIES: Final = (0, 1, 2, 3)

LANES_A_ROUND: Final = 32
"""Over so many lanes goes a round."""

LIMITED_LANES: Final = 128
"""Over so many under limits, where many lanes are known and few may give at a time."""

DRY_TURNS: Final = 32
"""So many of those are at least lanes that gave nothing the last time."""

DRY_LANES: Final = 16
"""So many lanes that gave nothing are remembered."""

KEPT_LANES: Final = 1024
"""So many under limits, where a lane gives again as soon as a permit is free."""

KNOWN_LANES: Final = 64
"""A walk meets so many lanes without a look at what they hold."""

ASK_AGAIN: Final = 30
"""Where the lanes are few, each so manieth short step asks where it stopped: at the last lane, or
where it had met as many as a step may. The question reads what the step has read already."""

REVERSE_EVERY: Final = 10
"""Every tenth claim takes the priorities in reverse, so that none starves."""

_BEFORE_ALL: Final = (datetime(1, 1, 1, tzinfo=UTC), 0)
_LAST_LANE: Final = UUID(int=2**128 - 1)

_START: Final = (NO_LANE, NO_LANE)


@dataclass(slots=True)
class Ring:
    """The lanes of one queue that had work lately, the next one first.

    Attributes:
        cursor: The lane after which the next sweep begins.
        is_limited: Whether something limits what may start from this queue, as far as known.
    """

    cursor: Lane = _START
    is_limited: bool = False
    _lanes: dict[Lane, bool] = field(default_factory=dict)
    _floors: dict[tuple[Lane, int], Place] = field(default_factory=dict)
    _kinds: dict[Lane, str | None] = field(default_factory=dict)
    _unfinished: dict[UUID, UUID] = field(default_factory=dict)
    _clock: datetime = _BEFORE_ALL[0]
    _claims: int = 0
    _is_short: bool = False
    _gave: bool = False
    _has_few: bool = False
    _short_steps: int = 0
    _moved: bool = False
    _has_news: bool = False
    _pace: Pace = field(default_factory=Pace)
    _look: RareLook = field(default_factory=RareLook)
    _move: RareLook = field(default_factory=RareLook)

    @property
    def is_walking(self) -> bool:
        """Whether the walk has yet to meet some lanes."""
        return self.cursor != _START

    def priorities(self) -> Sequence[int]:
        """Answer the order of priorities for the next claim."""
        self._claims += 1
        return PRIORITIES if self._claims % REVERSE_EVERY else PRIORITIES[::-1]

    def sweep_in(self, now: float) -> float:
        """Answer in how many seconds the next sweep may begin, by a monotonic clock."""
        gives = any(self._lanes.values())
        if self.is_walking:
            return self._pace.next_step_in(now, gives=gives)
        # Under limits more lanes may have work than are remembered: a short claim looks sooner.
        return self._pace.next_walk_in(
            now, gives=gives and not (self.is_limited and self._is_short)
        )

    def has_swept_since(self, moment: float) -> bool:
        """Say whether a whole walk began after the moment: what it did not find was not there."""
        return not self.is_walking and self._pace.has_begun_since(moment)

    def known_lanes(self) -> list[Lane]:
        """Answer lanes after the cursor that gave lately, in order: no walk need look for them."""
        known = {lane for lane, _ in self._floors}
        lately = [lane for lane in self._lanes if lane in known][-KNOWN_LANES:]
        return sorted(lane for lane in lately if lane > self.cursor)

    def kind_of(self, lane: Lane) -> str | None:
        """Answer the kind of a lane; None where it has all kinds without one of their own."""
        return self._kinds.get(lane)

    def rest(self) -> None:
        """Let the next sweep be due, as if its rest were over."""
        self._pace.rest()

    def expect_news(self) -> None:
        """Note that somebody said that a job has come: it most likely lies behind a floor."""
        self._has_news = True

    def take_news(self) -> bool:
        """Say, once, whether the next claim goes to the remembered lanes first."""
        has_news, self._has_news = self._has_news, False
        return has_news and bool(self._lanes)

    def begin_round(self, limit: int) -> Round | None:
        """Answer the next claim from remembered lanes, or None where none is remembered."""
        lanes = self._next_limited() if self.is_limited else list(self._lanes)[:LANES_A_ROUND]
        if not lanes:
            return None
        priorities = self.priorities()
        probes = tuple(
            (lane, priority, self._floors.get((lane, priority), _BEFORE_ALL))
            for lane in lanes
            for priority in priorities
        )
        return Round(probes, self._shares(lanes, limit), tuple(map(self._kinds.get, lanes)))

    def _next_limited(self) -> list[Lane]:
        """Answer the lanes of the next round: most of them such as a walk has just found.

        Others are asked as well, since what they waited for was perhaps a permit only.
        """
        giving = [lane for lane, gives in self._lanes.items() if gives]
        others = [lane for lane, gives in self._lanes.items() if not gives]
        turns = max(LIMITED_LANES - len(giving), DRY_TURNS)
        chosen = {*others[:turns], *giving[: LIMITED_LANES - min(turns, len(others))]}
        return [lane for lane in self._lanes if lane in chosen]

    def _shares(self, lanes: Sequence[Lane], limit: int) -> tuple[int, ...]:
        """Part the slots between the tenants, and what a tenant gets between its lanes.

        Lanes that gave nothing last time are not counted: the others would leave slots empty.
        """
        giving = Counter(tenant_id for tenant_id, lane in lanes if self._lanes[tenant_id, lane])
        each = -(-limit // max(1, len(giving)))
        return tuple(-(-each // max(1, giving[tenant_id])) for tenant_id, _ in lanes)

    def end_round(
        self, begun: Round, limit: int, found: Sequence[ClaimedJob], cost: float | None = None
    ) -> None:
        """Remember what a round found: lanes that gave go to the end, dry ones are forgotten.

        Args:
            begun: The round.
            limit: How many jobs were asked for.
            found: What it claimed.
            cost: What it cost, in seconds; None where it began at the oldest rows.
        """
        if cost is not None:
            self._pace.end_round(cost, len(found))
        counts = self._note(found)
        self._is_short = len(found) < limit
        # A full claim may have stopped before it came to the last lanes: their turn is next.
        if self._is_short:
            for lane, share in zip(begun.lanes, begun.shares, strict=True):
                if lane in counts:
                    # It gave all that it had.
                    self._lanes[lane] = counts[lane] >= share
                elif self._lanes.pop(lane, None) is not None:
                    self._lanes[lane] = False
            if self.is_limited:
                # The others may have waited for a permit only, so they come first next time.
                for lane in counts:
                    self._lanes[lane] = self._lanes.pop(lane)
        self._forget_dry()

    def asks_where(self) -> bool:
        """Say whether to ask where a short step stopped, since nothing it found can tell."""
        self._short_steps += 1
        return not self._has_few or self._short_steps >= ASK_AGAIN

    def end_skip(self, stopped: Lane | None) -> None:
        """Go on where a short step stopped; None where it had met every lane."""
        self._has_few, self._short_steps = stopped is None, 0
        if stopped is not None:
            if not self.is_walking:
                self._unfinished.clear()
            self.cursor = stopped

    def end_sweep(
        self, limit: int, found: Sequence[ClaimedJob], now: float, cost: float, share: int = 1
    ) -> None:
        """Remember what a sweep found, and where the next one goes on.

        Args:
            limit: How many jobs were asked for.
            found: What it claimed.
            now: When it ended, by a monotonic clock.
            cost: What it cost, in seconds.
            share: At most so many of a lane were asked for.
        """
        counts = self._note(found)
        self._pace.end_step(now, cost, len(found), is_first=not self.is_walking)
        last = max(counts, default=_START) if len(found) >= limit else None
        for lane, count in counts.items():
            # It gave all that it had; the lane at which the limit was reached may have more.
            self._lanes[lane] = count >= share or lane == last
        self._go_on(counts, last)

    def end_walk(self, found: Sequence[DueLane], most: int, now: float, cost: float) -> None:
        """Remember the lanes that a step found, in the sweep of a queue under limits.

        What is due there may lie behind a floor, so the next round begins where the step found
        it, and at the oldest row where the step did not look.

        Args:
            found: The lanes in order.
            most: How many were asked for.
            now: When it ended, by a monotonic clock.
            cost: What it cost, in seconds.
        """
        # Lanes that are known already would have been asked without a walk.
        new = sum(1 for due in found if due.lane not in self._lanes)
        for due in found:
            self._lanes[due.lane] = True
            self._kinds[due.lane] = due.kind
            for priority in PRIORITIES:
                self._floors.pop((due.lane, priority), None)
            due_at, number = due.place
            self._floors[due.lane, due.priority] = (due_at, number - 1)
        self._pace.end_step(now, cost, new, is_first=not self.is_walking)
        self._go_on([due.lane for due in found], found[-1].lane if len(found) >= most else None)

    def _go_on(self, met: Iterable[Lane], last: Lane | None) -> None:
        """Set the cursor: behind the last lane of a full step, or where a tenant was left."""
        if last is not None:
            tenant_id, lane = last
            lanes = sum(1 for one, _ in met if one == tenant_id)
            if lanes > 1:
                self._unfinished[tenant_id] = lane
            self.cursor = (tenant_id, _LAST_LANE if lanes > 1 else lane)
        elif self._unfinished:
            self.cursor = self._unfinished.popitem()
        else:
            self.cursor = _START

    def add_cost(self, now: float, cost: float, found: int = 0) -> None:
        """Count what followed the last sweep as its cost: a claim from the oldest rows.

        Args:
            now: When it ended, by a monotonic clock.
            cost: What it cost, in seconds.
            found: How many jobs it started.
        """
        self._pace.add_cost(now, cost, found)

    def is_move_due(self, now: float) -> bool:
        """Say whether jobs may be given their lanes again: at once where some had none before."""
        return self._moved or self._move.is_due(now, SWEEP_EVERY)

    def end_move(self, now: float, cost: float, moved: int) -> None:
        """Remember when jobs were last given their lanes, its cost in seconds, and how many."""
        self._move.end(now, cost)
        self._moved = moved > 0

    def is_look_due(self, now: float) -> bool:
        """Say whether it is time to ask whether there are limits."""
        return self._look.is_due(now, LOOK_SOON if self._gave else LOOK_EVERY)

    def end_look(self, now: float, *, is_limited: bool) -> None:
        """Remember whether there are limits."""
        self._look.end(now)
        self._gave = False
        if is_limited != self.is_limited:
            # Other statements walk from now on, and what these passed by is news to them.
            self.cursor = _START
            self._unfinished.clear()
        self.is_limited = is_limited

    def _note(self, found: Iterable[ClaimedJob]) -> Counter[Lane]:
        """Put the lanes that gave at the end, raise their floors, and count what each gave."""
        gave: Counter[Lane] = Counter()
        for job in found:
            if job.started_at < self._clock:
                # The database's clock went back: what is due now may lie before every floor.
                self._floors.clear()
            self._clock = job.started_at
            lane = (job.tenant_id, job.lane)
            gave[lane] += 1
            self._kinds[lane] = None if job.lane == NO_LANE else job.kind
            key, place = (lane, job.priority), (job.available_at, job.id)
            self._floors[key] = max(place, self._floors.get(key, place))
        self._gave = self._gave or bool(gave)
        for lane in gave:
            self._lanes.pop(lane, None)
            self._lanes[lane] = True
        return gave

    def _forget_dry(self) -> None:
        dry = [lane for lane, gives in self._lanes.items() if not gives]
        kept = KEPT_LANES if self.is_limited else DRY_LANES
        for lane in dry[: max(0, len(dry) - kept)]:
            del self._lanes[lane]
            self._kinds.pop(lane, None)
            for priority in PRIORITIES:
                self._floors.pop((lane, priority), None)
