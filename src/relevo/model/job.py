"""A job before it is written, while it runs, and as a person reads it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from relevo.model.backoff import DEFAULT_MAX_ATTEMPTS
from relevo.model.ids import NO_LANE


class JobState(StrEnum):
    """Where a job stands. Waiting is no state: such a job is available, and due later."""

    AVAILABLE = "available"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class KeyMode(StrEnum):
    """How long a key refuses a second job of the same kind and tenant.

    Each member is also the name of the column that holds the key.
    """

    WAITING = "waiting_key"
    LIVE = "live_key"
    ALWAYS = "key"


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be inserted: what the enqueue statement needs, already validated."""

    tenant_id: UUID
    queue: str
    kind: str
    payload: str
    lane: UUID = NO_LANE
    lane_key: str | None = None
    priority: int = 2
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    available_at: datetime | None = None
    delay: timedelta = timedelta(0)
    aggregate_id: str | None = None
    key: str | None = None
    key_mode: KeyMode = KeyMode.ALWAYS
    key_for: timedelta | None = None
    actor: str | None = None
    headers: str | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of an enqueue.

    Attributes:
        id: The new job, or the job that holds the key; None where a unique index
            of the application refused the row.
        created: Whether this call made the job.
    """

    id: int | None
    created: bool


@dataclass(slots=True)
class ClaimedJob:
    """A job that this worker holds, from claim to settle."""

    tenant_id: UUID
    id: int
    attempt: int
    excused: int
    losses: int
    max_attempts: int
    kind: str
    payload: str
    aggregate_id: str | None
    headers: str | None
    actor: str | None
    lane: UUID
    priority: int
    available_at: datetime
    started_at: datetime

    @property
    def failures(self) -> int:
        """How many starts count, this one included."""
        return self.attempt - self.excused


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start that did not complete the job, or the success before a requeue."""

    attempt: int
    outcome: str
    worker: int | None
    started_at: datetime | None
    finished_at: datetime
    retry_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as its row says, for people and tools."""

    tenant_id: UUID
    id: int
    queue: str
    kind: str
    state: JobState
    attempt: int
    excused: int
    losses: int
    max_attempts: int
    priority: int
    available_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: int | None
    aggregate_id: str | None
    key: str | None
    actor: str | None
    requeued_at: datetime | None
    requeued_by: str | None
    last_error: str | None
    payload: Any = field(repr=False)
    result: Any = field(repr=False)
