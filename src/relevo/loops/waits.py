"""How long one of the worker's own loops waits before it tries again."""

from datetime import timedelta
from random import Random
from typing import Final

from relevo.model.backoff import Backoff

JITTER: Final = 0.25
"""So much of a wait is taken off at most, so that not all who wait come at once."""


class Waits:
    """Waits that double up to a bound, and differ by chance.

    Args:
        first: The longest that the first of them can be, in seconds.
        at_most: The longest that any can be.
    """

    def __init__(self, first: float, at_most: float) -> None:
        base, cap = timedelta(seconds=first), timedelta(seconds=at_most)
        self._rule = Backoff(base=base, cap=cap, jitter=JITTER)
        self._random = Random()  # noqa: S311 -- spreads the tries of loops and workers, no secret
        self._failures = 0

    def next(self) -> float:
        """Answer how many seconds to wait after one more failure."""
        self._failures += 1
        return self._rule.delay(self._failures, self._random).total_seconds()

    def begin_anew(self) -> None:
        """Note that a try was good: the next wait is as short as the first."""
        self._failures = 0
