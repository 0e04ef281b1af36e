"""Which limits a job falls under, and what each of them counts by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from faults.checker.story import Story
from faults.evidence.records import Event, LimitChange
from relevo.model.ids import NO_LANE, lane_of

EACH_TENANT = "*"

Key = tuple[UUID, UUID]
"""The tenant and the lane that a limit counts by itself; zero where it counts all together."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit as it counts for one job.

    Attributes:
        limit: The limit as it stands.
        key: What it counts by itself.
    """

    limit: LimitChange
    key: Key


class Gates:
    """The limits that stand at some moment."""

    def __init__(self) -> None:
        self._limits: dict[int, LimitChange] = {}

    @classmethod
    def at_the_end(cls, story: Story) -> "Gates":
        """Answer the limits that stand when everything has happened."""
        gates = cls()
        for change in story.history.limits:
            gates.change(change)
        return gates

    def change(self, change: LimitChange) -> None:
        """Set, change or remove a limit."""
        if change.op == "delete":
            self._limits.pop(change.id, None)
        else:
            self._limits[change.id] = change

    def of(self, job: Event) -> Iterator[Gate]:
        """Answer the limits that a job falls under."""
        own = {
            limit.measure
            for limit in self._limits.values()
            if limit.scope == "tenant" and limit.name == str(job.tenant_id)
        }
        for limit in self._limits.values():
            if limit.scope == "tenant" and limit.name == EACH_TENANT and limit.measure in own:
                continue
            if concerns(limit, job):
                yield Gate(limit, key_of(limit, job))


def concerns(limit: LimitChange, job: Event) -> bool:
    """Whether a limit is about a job, others left aside."""
    match limit.scope:
        case "queue":
            return limit.name == job.queue
        case "tenant":
            return limit.name in (EACH_TENANT, str(job.tenant_id))
        case _:
            return limit.name == job.kind


def key_of(limit: LimitChange, job: Event) -> Key:
    """Answer what a limit counts by itself, for this job."""
    tenant = job.tenant_id if limit.scope in ("tenant", "lane") else NO_LANE
    return tenant, lane_of_job(job) if limit.scope == "lane" else NO_LANE


def applies_to(limit: LimitChange, job: Event, key: Key) -> bool:
    """Whether a job counts among those that a limit counts together."""
    return concerns(limit, job) and key_of(limit, job) == key


def lane_of_job(job: Event) -> UUID:
    """Answer the job's lane; one that was enqueued without is given it before it may start."""
    return lane_of(job.kind, job.lane_key) if job.lane == NO_LANE else job.lane
