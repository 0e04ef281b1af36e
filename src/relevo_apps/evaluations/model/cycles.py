"""What a cycle is: its states, the relations of its evaluations, how it is dispatched."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from uuid import UUID

NOTIFICATION_KIND = "cycle.dispatched"


class CycleState(StrEnum):
    """Where a cycle stands."""

    DRAFT = "draft"
    ACTIVE = "active"
    CLOSED = "closed"
    CANCELLED = "cancelled"


class EvaluationState(StrEnum):
    """Where one evaluation stands."""

    DRAFT = "draft"
    ACTIVE = "active"
    SUBMITTED = "submitted"
    CANCELLED = "cancelled"


class Relation(StrEnum):
    """What the evaluator is to the participant; also the rule that asks for it."""

    SELF = "self"
    MANAGER = "manager"
    UPWARD = "upward"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class Cycle:
    """One evaluation cycle.

    Attributes:
        id: The cycle's id, which is the aggregate of its notifications.
        name: Unique within the tenant.
        state: Where it stands.
        rules: The relations that it asks for.
        due_on: The day until which evaluations are expected, if one was set.
        created_by: Who created it.
        activated_at: When it was activated; None in draft.
        activated_by: Who activated it; None in draft.
        hold_until: Before this moment no notification goes out; None in draft.
    """

    id: UUID
    name: str
    state: CycleState
    rules: tuple[Relation, ...]
    due_on: date | None
    created_by: str
    activated_at: datetime | None
    activated_by: str | None
    hold_until: datetime | None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """How the notifications of an activation are put into the queue.

    Attributes:
        queue: The queue whose workers send mail.
        max_attempts: How many starts each notification has.
        priority: 0 is first, 3 is last.
        hold: How long nothing is sent, so that the activation can be recalled.
        headers: JSON text that travels with each notification, such as the trace context.
    """

    queue: str = "mail"
    max_attempts: int = 6
    priority: int = 1
    hold: timedelta = timedelta(minutes=10)
    headers: str | None = None


DEFAULT_DISPATCH = Dispatch()
