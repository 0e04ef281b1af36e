"""What a handler can answer, besides returning a value or raising.

A handler that returns anything else has completed, and what it returned is the
job's result. A handler that raises is retried by its kind's rule; raising a
`PermanentError` ends the job at once. An outcome with a value of another type is
refused (`InvalidOption`) where it is made, so inside the handler.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from relevo.model.checks import check_type


@dataclass(frozen=True, slots=True)
class Retry:
    """This start failed; try again while attempts are left.

    Attributes:
        in_: How long to wait; None takes the kind's backoff.
        reason: What a person should read as the last error.
    """

    in_: timedelta | None = None
    reason: str = "the handler asked for a retry"

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        if self.in_ is not None:
            check_type("in_", self.in_, timedelta)
        check_type("reason", self.reason, str)


@dataclass(frozen=True, slots=True)
class Snooze:
    """Nothing failed, it is only too early: come back later without spending an attempt.

    Attributes:
        in_: How long to wait.
        reason: What a person should read while the job waits.
    """

    in_: timedelta
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        check_type("in_", self.in_, timedelta)
        check_type("reason", self.reason, str)


@dataclass(frozen=True, slots=True)
class Fail:
    """The job can never succeed: end it as failed.

    Attributes:
        reason: The last error on the row, written for the person who reads it.
    """

    reason: str

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        check_type("reason", self.reason, str)


@dataclass(frozen=True, slots=True)
class Cancel:
    """The job is no longer wanted: end it as cancelled.

    Attributes:
        reason: Why, for the person who reads the row.
    """

    reason: str

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        check_type("reason", self.reason, str)


@dataclass(frozen=True, slots=True)
class Outage:
    """The channel is down, not the job: pause the queue and spend no attempt.

    The job goes back, and nothing of its queue is claimed until the pause is over.

    Attributes:
        reason: What is down; shown on the queue and on the job.
        in_: How long the queue stays paused.
    """

    reason: str
    in_: timedelta

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        check_type("reason", self.reason, str)
        check_type("in_", self.in_, timedelta)


class PermanentError(Exception):
    """Raise this, or a subclass, where another try cannot help: the job ends as failed."""


Outcome: TypeAlias = Retry | Snooze | Fail | Cancel | Outage
