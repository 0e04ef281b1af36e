"""What a claim asks of lanes, and what a walk answers: the values between memory and store."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

Lane = tuple[UUID, UUID]
"""A tenant, and where its jobs queue up."""

Place = tuple[datetime, int]
"""When a job was due, and its number: the order in which a lane's jobs start."""


@dataclass(frozen=True, slots=True)
class Round:
    """One claim from remembered lanes: a probe for each lane and priority, in this order.

    Attributes:
        probes: Tenant, lane, priority and floor of each.
        shares: At most so many jobs from each lane.
        kinds: The kind of each lane; None where it has all kinds that have no lane of their own.
    """

    probes: tuple[tuple[Lane, int, Place], ...]
    shares: tuple[int, ...]
    kinds: tuple[str | None, ...] = ()

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes that are probed, in order."""
        return tuple(dict.fromkeys(lane for lane, _, _ in self.probes))


@dataclass(frozen=True, slots=True)
class DueLane:
    """A lane that a walk found to have something due.

    Attributes:
        lane: The lane.
        kind: Its kind; None where it has all kinds that have no lane of their own.
        priority: The first priority, in the order that was asked, of which something is due.
        place: The first of these: when it was due, and its number.
    """

    lane: Lane
    kind: str | None
    priority: int
    place: Place
