"""How long a failed job waits before its next start."""

import math
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Final

from relevo.model.checks import check_type
from relevo.model.errors import InvalidBackoff


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with a cap: ``min(cap, base * factor ** (n - 1))``.

    Attributes:
        base: The wait after the first failed start.
        factor: What each further wait is multiplied by, at least 1.
        cap: The longest wait.
        jitter: The largest share of a wait that may be taken off at random, 0 to 1.

    Raises:
        InvalidBackoff: A value is out of its range.
        InvalidOption: A value is of another type.
    """

    base: timedelta
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=5)
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a rule that would never wait, or never end."""
        for option, wanted in _TYPES.items():
            check_type(option, getattr(self, option), wanted)
        if not timedelta(0) < self.base <= self.cap:
            raise InvalidBackoff(what=f"base {self.base} is not between 0 and the cap {self.cap}")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise InvalidBackoff(what=f"factor {self.factor} is not a number from 1 up")
        if not 0 <= self.jitter < 1:
            raise InvalidBackoff(what=f"jitter {self.jitter} is not between 0 and 1")

    def delay(self, failures: int, random: Random | None = None) -> timedelta:
        """Answer the wait after the given number of failed starts.

        Args:
            failures: How many starts have failed, from 1.
            random: Where jitter comes from; None means no jitter.

        Returns:
            A wait in (0, cap], not decreasing with `failures` as long as there is no jitter.
        """
        # Compare logarithms: the power itself would overflow for large counts.
        exponent = max(failures, 1) - 1
        room = self.cap / self.base
        capped = exponent * math.log(self.factor) >= math.log(room)
        wait = self.cap if capped else min(self.cap, self.base * self.factor**exponent)
        if random is None or not self.jitter:
            return wait
        return wait * (1 - self.jitter * random.random())


_TYPES: Final[dict[str, type]] = {
    "base": timedelta,
    "factor": float,
    "cap": timedelta,
    "jitter": float,
}

DELIVERY: Final = Backoff(base=timedelta(seconds=20), factor=2, cap=timedelta(minutes=5))
"""Retries of an outbox: 20, 40, 80, 160 and 300 s (five retries, capped at five minutes)."""

STANDARD: Final = Backoff(base=timedelta(minutes=2), factor=2, cap=timedelta(minutes=32))
"""Retries of background work: 2, 4, 8, 16 and 32 minutes (doubling, the last is the cap)."""

DEFAULT_MAX_ATTEMPTS: Final = 6
"""Starts, not retries: both presets retry five times."""
