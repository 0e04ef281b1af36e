"""Which lanes a worker claims from next, and from where in each: its memory of one queue.

Two kinds of claim share it. The sweep walks every lane from its oldest row and finds
what nobody has remembered; the round goes over remembered lanes and begins in each
behind the floor, the place that the last claim reached. Dead index entries pile up before
the floor where a long transaction pins them, and so do jobs that this worker cannot run:
the round never reads them, and the sweep is rare enough to be allowed to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from relevo.model.ids import NO_LANE
from relevo.model.job import ClaimedJob

PRIORITIES: Final = (0, 1, 2, 3)

SWEEP_EVERY: Final = 1.0
"""At most so many seconds a job may wait behind a floor, or in a lane nobody remembers."""

SWEEP_SHARE: Final = 20.0
"""A sweep rests for so many times its own cost, so that sweeps take a twentieth of the time."""

LANES_A_ROUND: Final = 32
DRY_LANES: Final = 16
LIMITED_LANES: Final = 128
KEPT_LANES: Final = 1024
"""Under limits many lanes are known and few may give at a time, so more are looked at."""

LOOK_EVERY: Final = 5.0
LOOK_SOON: Final = 1.0
"""How often a worker asks whether there are limits: soon when work that flowed ends."""
REVERSE_EVERY: Final = 10
"""Every tenth claim takes the priorities in reverse, so that none starves."""

_BEFORE_ALL: Final = (datetime(1, 1, 1, tzinfo=UTC), 0)

Lane = tuple[UUID, UUID]
Place = tuple[datetime, int]


@dataclass(frozen=True, slots=True)
class Round:
    """One claim from remembered lanes: a probe for each lane and priority, in this order.

    Attributes:
        probes: Tenant, lane, priority and floor of each.
        share: At most so many jobs from one probe.
        kinds: The kind of each lane; None where it has all kinds that have no lane of their own.
    """

    probes: tuple[tuple[Lane, int, Place], ...]
    share: int
    kinds: tuple[str | None, ...] = ()

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes that are probed, in order."""
        return tuple(dict.fromkeys(lane for lane, _, _ in self.probes))


@dataclass(slots=True)
class Ring:
    """The lanes of one queue that had work lately, the next one first.

    Attributes:
        cursor: The lane after which the next sweep begins.
        is_limited: Whether something limits what may start from this queue, as far as known.
    """

    cursor: Lane = (NO_LANE, NO_LANE)
    is_limited: bool = False
    _lanes: dict[Lane, bool] = field(default_factory=dict)
    _floors: dict[tuple[Lane, int], Place] = field(default_factory=dict)
    _clock: datetime = _BEFORE_ALL[0]
    _claims: int = 0
    _swept_at: float = float("-inf")
    _sweep_cost: float = 0.0
    _kinds: dict[Lane, str | None] = field(default_factory=dict)
    _looked_at: float = float("-inf")
    _gave: bool = False
    _is_short: bool = False
    _moved_at: float = float("-inf")
    _move_cost: float = 0.0

    def priorities(self) -> Sequence[int]:
        """Answer the order of priorities for the next claim."""
        self._claims += 1
        return PRIORITIES if self._claims % REVERSE_EVERY else PRIORITIES[::-1]

    def sweep_in(self, now: float) -> float:
        """Answer in how many seconds the next sweep may begin, by a monotonic clock."""
        rest = self._sweep_cost * SWEEP_SHARE
        if any(self._lanes.values()) and not (self.is_limited and self._is_short):
            rest = max(rest, SWEEP_EVERY)
        return max(0.0, self._swept_at + rest - now)

    def has_swept_since(self, moment: float) -> bool:
        """Say whether a sweep began after the moment: what it did not find was not there."""
        return self._swept_at - self._sweep_cost >= moment

    def rest(self) -> None:
        """Let the next sweep be due, as if a second had gone by."""
        self._swept_at = float("-inf")

    def begin_round(self, limit: int) -> Round | None:
        """Answer the next claim from remembered lanes, or None where none is remembered."""
        lanes = list(self._lanes)[: LIMITED_LANES if self.is_limited else LANES_A_ROUND]
        if not lanes:
            return None
        priorities = self.priorities()
        probes = tuple(
            (lane, priority, self._floors.get((lane, priority), _BEFORE_ALL))
            for lane in lanes
            for priority in priorities
        )
        # No lane takes all slots while others wait; few lanes share them all. Under limits
        # most of the lanes that are known may be waiting for a permit.
        giving = sum(self._lanes[lane] for lane in lanes) if self.is_limited else len(lanes)
        kinds = tuple(self._kinds.get(lane) for lane in lanes)
        return Round(probes, -(-limit // max(1, giving)), kinds)

    def end_round(self, begun: Round, limit: int, found: Sequence[ClaimedJob]) -> None:
        """Remember what a round found: lanes that gave go to the end, dry ones are forgotten."""
        gave = self._note(found)
        # Under limits more lanes may have work than are remembered: look sooner.
        self._is_short = len(found) < limit
        # A full claim may have stopped before it came to the last lanes: their turn is next.
        probed = begun.lanes if len(found) < limit else ()
        for lane in probed:
            if lane not in gave and self._lanes.pop(lane, None) is not None:
                self._lanes[lane] = False
        self._forget_dry()

    def end_sweep(self, limit: int, found: Sequence[ClaimedJob], now: float, cost: float) -> None:
        """Remember what a sweep found, when it ended, and what it cost in seconds."""
        self._note(found)
        self._swept_at, self._sweep_cost = now, cost
        full = len(found) >= limit
        self.cursor = (
            max((job.tenant_id, job.lane) for job in found) if full else (NO_LANE, NO_LANE)
        )

    def end_walk(
        self, found: Sequence[tuple[Lane, str | None]], most: int, now: float, cost: float
    ) -> None:
        """Remember the lanes that a walk found, the sweep of a queue under limits.

        What is due there may lie behind a floor, so the next round begins at the oldest row.

        Args:
            found: The lanes in order, each with its kind.
            most: How many were asked for.
            now: When it ended, by a monotonic clock.
            cost: What it cost, with the claim that followed, in seconds.
        """
        for lane, kind in found:
            self._lanes[lane] = True
            self._kinds[lane] = kind
            for priority in PRIORITIES:
                self._floors.pop((lane, priority), None)
        self._swept_at, self._sweep_cost = now, cost
        self.cursor = found[-1][0] if len(found) >= most else (NO_LANE, NO_LANE)

    def add_cost(self, now: float, cost: float) -> None:
        """Count what followed the last sweep as its cost: a claim from the oldest rows."""
        self._swept_at = now
        self._sweep_cost += cost

    def tenants(self) -> list[UUID]:
        """Answer whose lanes without a key are known."""
        return [tenant_id for tenant_id, lane in self._lanes if lane == NO_LANE]

    def move_in(self, now: float) -> float:
        """Answer in how many seconds jobs may be given their lanes again."""
        return max(0.0, self._moved_at + max(SWEEP_EVERY, self._move_cost * SWEEP_SHARE) - now)

    def end_move(self, now: float, cost: float) -> None:
        """Remember when jobs were last given their lanes, and what it cost in seconds."""
        self._moved_at, self._move_cost = now, cost

    def is_look_due(self, now: float) -> bool:
        """Say whether it is time to ask whether there are limits."""
        return now - self._looked_at >= (LOOK_SOON if self._gave else LOOK_EVERY)

    def end_look(self, now: float, *, is_limited: bool) -> None:
        """Remember whether there are limits."""
        self._looked_at, self._gave = now, False
        self.is_limited = is_limited

    def _note(self, found: Iterable[ClaimedJob]) -> set[Lane]:
        gave: set[Lane] = set()
        for job in found:
            if job.started_at < self._clock:
                # The database's clock went back: what is due now may lie before every floor.
                self._floors.clear()
            self._clock = job.started_at
            lane = (job.tenant_id, job.lane)
            gave.add(lane)
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
