"""Limits in the model: how many may run, start within a time, or go one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from faults.model.jobs import ModelJob

Place = tuple[str, str, str]
"""Scope, name and measure of a limit."""

Gate = tuple[UUID | None, UUID | None]
"""The tenant and the lane that a limit counts by itself."""

EACH = "*"


@dataclass(slots=True)
class ModelLimit:
    """A limit.

    Attributes:
        most: How many.
        hours: In which time, for starts.
        starts: The hours of the starts that count, by gate.
        turns: Whose turn it is, by lane in order.
        beside: What ran when the order was declared, and does not have the turn.
    """

    most: int
    hours: int | None = None
    starts: dict[Gate, list[int]] = field(default_factory=dict)
    turns: dict[Gate, int] = field(default_factory=dict)
    beside: dict[Gate, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class Gates:
    """All limits that stand."""

    limits: dict[Place, ModelLimit] = field(default_factory=dict)

    def of(self, job: ModelJob) -> list[tuple[Place, ModelLimit]]:
        """Answer the limits that a job falls under."""
        return [(place, one) for place, one in self.limits.items() if self._meets(place, job)]

    def _meets(self, place: Place, job: ModelJob) -> bool:
        scope, name, measure = place
        if scope == "queue":
            return job.queue == name
        if scope == "tenant":
            own = str(job.tenant)
            return name == own or (name == EACH and ("tenant", own, measure) not in self.limits)
        return job.kind == name

    def lets(self, job: ModelJob, jobs: Mapping[int, ModelJob], hour: int) -> bool:
        """Say whether every limit lets it start."""
        return not self.refusal(job, jobs, hour)

    def refusal(self, job: ModelJob, jobs: Mapping[int, ModelJob], hour: int) -> Place | None:
        """Answer a limit that does not let it start."""
        for place, one in self.of(job):
            if place[2] == "order":
                if not self._is_its_turn(one, job, jobs):
                    return place
                continue
            if place[2] == "starts":
                taken = one.starts.get(gate(place, job), [])
                used = sum(at + (one.hours or 0) > hour for at in taken)
            else:
                used = sum(
                    other.state == "running"
                    and self._meets(place, other)
                    and gate(place, other) == gate(place, job)
                    for other in jobs.values()
                )
            if used >= one.most:
                return place
        return None

    def _is_its_turn(self, one: ModelLimit, job: ModelJob, jobs: Mapping[int, ModelJob]) -> bool:
        mine = (job.tenant, job.own_lane)
        for job_id, attempt in one.beside.get(mine, []):
            other = jobs.get(job_id)
            if other and other.state == "running" and other.attempt == attempt:
                return False
        turn = jobs.get(one.turns.get(mine, 0))
        return turn is None or not turn.live or turn.id == job.id

    def has_turn(self, job: ModelJob) -> bool:
        """Say whether a lane in order is waiting for this job."""
        one = self.limits.get(("lane", job.kind, "order"))
        return one is not None and one.turns.get((job.tenant, job.own_lane)) == job.id

    def start(self, job: ModelJob, hour: int) -> None:
        """Count a start."""
        for place, one in self.of(job):
            if place[2] == "starts":
                one.starts.setdefault(gate(place, job), []).append(hour)
            elif place[2] == "order":
                one.turns[job.tenant, job.own_lane] = job.id

    def set(self, place: Place, most: int, hours: int | None, jobs: Mapping[int, ModelJob]) -> None:
        """Set a limit; what runs already counts."""
        if standing := self.limits.get(place):
            standing.most, standing.hours = most, hours
            return
        one = self.limits[place] = ModelLimit(most, hours)
        running = [job for job in jobs.values() if job.state == "running" and _concerns(place, job)]
        for job in sorted(running, key=lambda job: job.rank[1:]):
            if place[2] == "starts":
                assert job.started is not None
                one.starts.setdefault(gate(place, job), []).append(job.started)
            elif place[2] == "order":
                mine = (job.tenant, job.own_lane)
                if mine in one.turns:
                    one.beside.setdefault(mine, []).append((job.id, job.attempt))
                one.turns.setdefault(mine, job.id)

    def remove(self, place: Place) -> bool:
        """Remove a limit; what a tenant's own has counted, the one of each goes on counting."""
        gone = self.limits.pop(place, None)
        each = self.limits.get((place[0], EACH, place[2]))
        if gone and each and place[0] == "tenant" and place[1] != EACH:
            mine = (UUID(place[1]), None)
            each.starts[mine] = gone.starts.get(mine, [])
        return gone is not None


def gate(place: Place, job: ModelJob) -> Gate:
    """Answer what a limit counts a job with."""
    tenant = job.tenant if place[0] in ("tenant", "lane") else None
    return tenant, job.own_lane if place[0] == "lane" else None


def _concerns(place: Place, job: ModelJob) -> bool:
    scope, name, _ = place
    if scope == "tenant":
        return name in (EACH, str(job.tenant))
    return (job.queue if scope == "queue" else job.kind) == name
