"""A kind of job: its name, its handler, and the rules its jobs live by."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from relevo.model.backoff import DEFAULT_MAX_ATTEMPTS, STANDARD, Backoff
from relevo.model.checks import check_name, check_positive, check_type
from relevo.model.errors import InvalidOption
from relevo.model.ids import NO_LANE, lane_of
from relevo.model.limit import Limit
from relevo.model.payload import PayloadSchema
from relevo.model.retention import DEFAULT_RETENTION, Retention

DEFAULT_QUEUE: Final = "default"
DEFAULT_TIMEOUT: Final = timedelta(minutes=5)
DEFAULT_PRIORITY: Final = 2
MAX_ATTEMPTS_LIMIT: Final = 1_000_000

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,126}")


@dataclass(frozen=True, slots=True)
class Kind:
    """What every job of one name has in common.

    Attributes:
        name: The kind's name on the row, such as ``mail.receipt``.
        handler: The function that does the work; its first parameter is the context.
        schema: How its arguments are written and read.
        queue: Where its jobs wait.
        retry: How long a failed job waits.
        max_attempts: How many starts count before the job is failed, from 1.
        timeout: How long one start may take.
        priority: From 0 (first) to 3 (last).
        retention: How long finished jobs stay.
        limits: How many of its jobs may run at once, or start within a time.
        ordered: Whether the jobs of one lane run one after the other.
    """

    name: str
    handler: Callable[..., Any]
    schema: PayloadSchema
    queue: str = DEFAULT_QUEUE
    retry: Backoff = STANDARD
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    timeout: timedelta = DEFAULT_TIMEOUT
    priority: int = DEFAULT_PRIORITY
    retention: Retention = DEFAULT_RETENTION
    limits: tuple[Limit, ...] = ()
    ordered: bool = False

    def __post_init__(self) -> None:
        """Refuse values that the table would refuse later."""
        check_name("kind", self.name, _NAME)
        check_name("queue", self.queue)
        check_type("retry", self.retry, Backoff)
        check_max_attempts(self.max_attempts)
        check_priority(self.priority)
        check_positive("timeout", self.timeout)
        check_type("retention", self.retention, Retention)
        for limit in self.limits:
            check_type("limits", limit, Limit)
        check_type("ordered", self.ordered, bool)
        places = [(limit.per, limit.measure) for limit in self.limits]
        if len(places) != len(set(places)):
            raise InvalidOption(
                option="limits",
                value=[str(limit) for limit in self.limits],
                why="two of them count the same thing",
                next="keep one of each",
            )

    def lane(self, lane_key: str | None) -> UUID:
        """Answer where its jobs with this key queue up.

        Kinds under limits have lanes of their own, so that those of their jobs that have to
        wait hold up nothing else.
        """
        if lane_key is None and not self.limits and not self.ordered:
            return NO_LANE
        return lane_of(self.name, lane_key)

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return inspect.iscoroutinefunction(self.handler)


def check_max_attempts(value: object) -> None:
    """Refuse anything but a whole number of starts from 1 to a million."""
    # None and infinity are no slip of types: who passes them means 'unlimited', and is told.
    if type(value) is not int or not 1 <= value <= MAX_ATTEMPTS_LIMIT:
        raise InvalidOption(
            option="max_attempts",
            value=value,
            why="it counts starts, so it is a whole number from 1 to 1000000",
            next="there is no value for 'unlimited'; pass a large number",
        )


def check_priority(value: int) -> None:
    """Refuse anything but 0, 1, 2 or 3."""
    check_type("priority", value, int)
    if not 0 <= value <= 3:  # noqa: PLR2004 -- the four priorities
        raise InvalidOption(
            option="priority",
            value=value,
            why="there are four priorities",
            next="pass 0 (first), 1, 2 or 3 (last)",
        )
