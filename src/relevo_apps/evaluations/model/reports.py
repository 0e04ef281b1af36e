"""What the services answer: reports that a command or a page only has to show."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relevo import RelevoError
from relevo_apps.evaluations.model.cycles import Cycle, EvaluationState, Relation
from relevo_apps.evaluations.model.findings import Finding
from relevo_apps.evaluations.model.people import Language


@dataclass(frozen=True, slots=True)
class Added:
    """What became of the people or pairs that were to enter a draft.

    Attributes:
        added: How many are new.
        already_there: How many were there before.
        unknown: The references that name nobody.
        inactive: Those who have left and were not added.
        not_participants: Those whose evaluation was asked though they do not take part.
        selves: Those who were named as their own peer.
    """

    added: int
    already_there: int
    unknown: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()
    not_participants: tuple[str, ...] = ()
    selves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Removed:
    """What left a draft.

    Attributes:
        participants: How many participants were removed.
        evaluations: How many evaluations about them went with them.
    """

    participants: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class Generated:
    """The evaluations of a draft after its rules were applied.

    Attributes:
        created: How many are new.
        removed: How many no longer followed from a rule.
        totals: How many there are now, by relation.
    """

    created: int
    removed: int
    totals: Mapping[Relation, int]

    @property
    def total(self) -> int:
        """Count all evaluations of the draft."""
        return sum(self.totals.values())


@dataclass(frozen=True, slots=True)
class Activation:
    """What one activation did.

    Attributes:
        cycle: The cycle, now active.
        evaluations: How many evaluations became active.
        evaluators: How many people are asked.
        created: How many notifications are new.
        revived: How many had been recalled before they were sent, and are due again.
        already_there: How many people were written to before and get nothing new.
        warnings: What deserved a look and did not block.
    """

    cycle: Cycle
    evaluations: int
    evaluators: int
    created: int
    revived: int
    already_there: int
    warnings: tuple[Finding, ...]

    @property
    def notifications(self) -> int:
        """Count the messages that this activation causes."""
        return self.created + self.revived


@dataclass(frozen=True, slots=True)
class Invited:
    """A person who is ready to be asked.

    Attributes:
        external_id: Their id.
        full_name: What is shown.
        email: Where the message goes.
        language: The language of the message.
        evaluations: How many evaluations the message lists.
    """

    external_id: str
    full_name: str
    email: str
    language: Language
    evaluations: int


@dataclass(frozen=True, slots=True)
class Preflight:
    """What an activation would do now.

    Attributes:
        cycle: The cycle as it is.
        ready: Who could be written to, sorted by name.
        warnings: What deserves a look.
        blocked: What refuses the activation.
        activation: What the activation would report; None when it would be refused.
        refusal: The error that the activation would raise; None when it would not.
    """

    cycle: Cycle
    ready: tuple[Invited, ...]
    warnings: tuple[Finding, ...]
    blocked: tuple[Finding, ...]
    activation: Activation | None
    refusal: RelevoError | None

    @property
    def notifications(self) -> int:
        """Count the messages that the activation would cause."""
        return self.activation.notifications if self.activation else 0

    @property
    def evaluations(self) -> int:
        """Count the evaluations that would become active."""
        return self.activation.evaluations if self.activation else 0


@dataclass(frozen=True, slots=True)
class Recipient:
    """A person and how far their notification got when the cycle was recalled.

    Attributes:
        external_id: Their id.
        full_name: What is shown.
        email: Where the message went.
        at: When it was delivered; None while a delivery is still under way.
    """

    external_id: str
    full_name: str
    email: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Recall:
    """What a recall took back, and what it could not.

    Attributes:
        cycle: The cycle, in draft again.
        evaluations: How many evaluations are drafts again.
        cancelled: How many notifications will not be sent.
        mailed: Who had already been written to.
        in_flight: Whose message was being sent at that moment.
    """

    cycle: Cycle
    evaluations: int
    cancelled: int
    mailed: tuple[Recipient, ...]
    in_flight: tuple[Recipient, ...]


@dataclass(frozen=True, slots=True)
class NotificationCounts:
    """The notifications of a cycle; total is delivered, failed, cancelled and pending.

    Attributes:
        total: All of them.
        delivered: Those that the mail server took.
        failed: Those that ended without delivery.
        cancelled: Those that were recalled.
        pending: Those that are still to be sent, or being sent.
        retried: Those that needed more than one start, however they ended.
    """

    total: int
    delivered: int
    failed: int
    cancelled: int
    pending: int
    retried: int


@dataclass(frozen=True, slots=True)
class Notification:
    """One person's notification.

    Attributes:
        job_id: The job that delivers it.
        external_id: The person's id.
        full_name: What is shown.
        email: Where it goes.
        state: The job's state.
        starts: How many starts of its delivery count.
        available_at: When it is due, or was.
        finished_at: When it ended, if it did.
        last_error: Why the last start failed, readable.
        sort_key: The text that the list is sorted by; with `job_id`, where a page goes on.
    """

    job_id: int
    external_id: str
    full_name: str
    email: str | None
    state: str
    starts: int
    available_at: datetime
    finished_at: datetime | None
    last_error: str | None
    sort_key: str


@dataclass(frozen=True, slots=True)
class CycleStatus:
    """A cycle with figures that add up.

    Attributes:
        cycle: The cycle.
        participants: How many people are evaluated.
        evaluations: How many evaluations there are, by state; every state is listed.
        notifications: How the notifications stand.
        troubled: The notifications that failed or wait for a retry, the first hundred by name.
    """

    cycle: Cycle
    participants: int
    evaluations: Mapping[EvaluationState, int]
    notifications: NotificationCounts
    troubled: tuple[Notification, ...] = field(default=())
