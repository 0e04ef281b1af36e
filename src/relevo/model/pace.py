"""When a worker may look beyond what it remembers: the pace of sweeps, and of rarer looks.

What is rare enough may be dear. A sweep rests for so many times its own cost, so that all
sweeps together take a thirtieth of the time, whatever they have to read.
"""

from dataclasses import dataclass
from typing import Final

SWEEP_EVERY: Final = 1.0
"""At most so many seconds a job may wait behind a floor, or in a lane nobody remembers."""

SWEEP_SHARE: Final = 30.0
"""A sweep rests for so many times its own cost, so that sweeps take a thirtieth of the time."""

STEP_COST: Final = 4.0
"""A step of a walk may cost so many times a round; for what it costs beyond that it rests."""

JOB_COST: Final = 0.0005
"""What a job costs in a round, in seconds, until one has been measured."""

LOOK_EVERY: Final = 5.0
LOOK_SOON: Final = 1.0
"""How often a worker asks whether there are limits: soon when work that flowed ends."""

TOLD_TOO_OFTEN: Final = 200
OVER: Final = 0.1
"""Told of so many jobs a second, over so many seconds, a worker wants to hear no more."""

LOOK_IN_FLOW: Final = 0.01
QUIET_LOOKS: Final = 20
"""While jobs flow it looks every so often instead, until so many looks in a row found nothing."""

_NEVER: Final = float("-inf")
_UNKNOWN: Final = float("inf")


@dataclass(slots=True)
class Pace:
    """When the walk over all lanes goes on, and when it begins anew. Times are monotonic."""

    _walk_began: float = _NEVER
    _stepped_at: float = _NEVER
    _step_cost: float = 0.0
    _walk_cost: float = 0.0
    _allowed: float = 0.0
    _job_cost: float = _UNKNOWN

    def next_step_in(self, now: float, *, gives: bool) -> float:
        """Answer in how many seconds a walk under way may go on.

        The lanes that it has yet to meet come first; a step that was dear lets rounds go on.
        """
        rest = max(0.0, self._step_cost - self._allowed) * SWEEP_SHARE if gives else 0.0
        return max(0.0, self._stepped_at + rest - now)

    def next_walk_in(self, now: float, *, gives: bool) -> float:
        """Answer in how many seconds a new walk may begin."""
        rest = self._walk_cost * SWEEP_SHARE
        return max(0.0, self._stepped_at + (max(rest, SWEEP_EVERY) if gives else rest) - now)

    def has_begun_since(self, moment: float) -> bool:
        """Say whether the last walk began after the moment."""
        return self._walk_began >= moment

    def end_step(self, now: float, cost: float, found: int, *, is_first: bool) -> None:
        """Note a step of a walk: when it ended, its cost in seconds, and what it found."""
        if is_first:
            self._walk_began, self._walk_cost = now - cost, 0.0
        self._stepped_at, self._step_cost = now, cost
        self._allowed = STEP_COST * self._job_cost * max(1, found)
        self._walk_cost += self._beyond(cost, found)

    def add_cost(self, now: float, cost: float, found: int = 0) -> None:
        """Count what followed a step as its cost, where rounds would have been cheaper."""
        self._stepped_at = now
        self._step_cost += self._beyond(cost, found)
        self._walk_cost += self._beyond(cost, found)

    def end_round(self, cost: float, found: int) -> None:
        """Note what a job costs in a round."""
        if found:
            self._job_cost = cost / found

    def _beyond(self, cost: float, found: int) -> float:
        """Answer what is dear about a cost: rounds would have been paid as well."""
        job_cost = self._job_cost if self._job_cost < _UNKNOWN else JOB_COST
        return max(0.0, cost - STEP_COST * job_cost * found)

    def rest(self) -> None:
        """Let the next sweep be due, as if its rest were over."""
        self._stepped_at = _NEVER


@dataclass(slots=True)
class RareLook:
    """A look that is made now and then: not oftener than every so often, nor too dear."""

    _at: float = _NEVER
    _cost: float = 0.0

    def is_due(self, now: float, every: float) -> bool:
        """Say whether it is time again."""
        return now - self._at >= max(every, self._cost * SWEEP_SHARE)

    def end(self, now: float, cost: float = 0.0) -> None:
        """Note when it was made, and its cost in seconds."""
        self._at, self._cost = now, cost


@dataclass(slots=True)
class Flow:
    """Whether jobs come so fast that to be told of each costs more than to look.

    PostgreSQL lets one transaction at a time commit a notification, so a worker that keeps up
    with many producers and is told of each job makes them wait for one another.

    Attributes:
        is_steady: Whether to look by oneself rather than be told.
    """

    is_steady: bool = False
    _since: float = _NEVER
    _heard: int = 0
    _quiet: int = 0

    def end_look(self, now: float, found: int, heard: int) -> None:
        """Note a look: when it ended, how many jobs it found, how many were announced so far."""
        if self.is_steady:
            self._quiet = 0 if found else self._quiet + 1
            self.is_steady = self._quiet < QUIET_LOOKS
        elif now - self._since >= OVER:
            self.is_steady = heard - self._heard >= TOLD_TOO_OFTEN * (now - self._since)
            self._since, self._heard, self._quiet = now, heard, 0
