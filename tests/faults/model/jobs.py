"""What the model knows of one job: its row, with times in whole hours of the model's clock."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from relevo.model.ids import NO_LANE, lane_of

FINAL = ("completed", "failed", "cancelled")


@dataclass(slots=True)
class ModelJob:
    """A job as it has to be.

    Attributes:
        due: The hour from which it may start.
        place: The exact time that the database gave it, which decides the order.
        again: Whether it was asked for again after its last start.
        asked: Whether it was asked to stop.
        prune: The hour from which it may be removed; None keeps it.
    """

    id: int
    tenant: UUID
    queue: str
    kind: str
    ref: int
    priority: int
    max_attempts: int
    due: int
    aggregate: str | None = None
    lane_key: str | None = None
    waiting_key: str | None = None
    live_key: str | None = None
    key: str | None = None
    key_expires: int | None = None
    state: str = "available"
    attempt: int = 0
    excused: int = 0
    losses: int = 0
    worker: int | None = None
    asked: bool = False
    again: bool = False
    error: str | None = None
    finished: int | None = None
    started: int | None = None
    prune: int | None = None
    lane: UUID = NO_LANE
    place: datetime | None = None

    @property
    def live(self) -> bool:
        """Whether it has not ended."""
        return self.state not in FINAL

    @property
    def has_key(self) -> bool:
        """Whether it has a key of any sort."""
        return any(key is not None for key in (self.waiting_key, self.live_key, self.key))

    @property
    def own_lane(self) -> UUID:
        """Where it queues up under a limit of its kind."""
        return lane_of(self.kind, self.lane_key)

    @property
    def rank(self) -> tuple[int, datetime, int]:
        """Its place among those of its lane."""
        assert self.place is not None
        return (self.priority, self.place, self.id)

    def seen(self) -> "ModelJob":
        """Answer it without what the engine may choose."""
        return replace(self, lane=NO_LANE, place=None)

    def end(self, state: str, hour: int, keep: float | None) -> None:
        """Make it final; a key that never expires keeps its row."""
        self.state, self.finished, self.worker = state, hour, None
        self.prune = None
        if keep is None:
            return
        if self.key is None or self.key_expires is not None:
            self.prune = max(hour + round(keep / 3600), self.key_expires or 0)

    def go_back(self, due: int) -> None:
        """Let it wait for its next start."""
        self.state, self.worker, self.due = "available", None, due

    def excuse(self) -> None:
        """Do not count its last start."""
        self.excused = min(self.excused, self.attempt - 1) + 1
