"""How long a channel rests after it was found down.

The pause doubles with every outage in a row and starts again after a success.
The value decides, the holder remembers; the engine does the pausing.
"""

from dataclasses import dataclass, replace
from datetime import timedelta

from relevo.integrations.smtp.verdict import (
    ChannelDown,
    Delivered,
    Delivery,
    PermanentRefusal,
    TemporaryRefusal,
)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Outages in a row, and the pause that they ask for.

    Attributes:
        failures: Outages since the last answer.
        first: The pause after one.
        cap: The longest pause.
    """

    failures: int = 0
    first: timedelta = timedelta(seconds=5)
    cap: timedelta = timedelta(minutes=5)

    @property
    def pause(self) -> timedelta:
        """How long to leave the channel alone; zero when it works."""
        if not self.failures:
            return timedelta(0)
        # The exponent is bounded first, so that a week of outages does not overflow.
        return min(self.first * (1 << min(self.failures - 1, 32)), self.cap)

    def tripped(self) -> "Breaker":
        """The breaker after one more outage."""
        return replace(self, failures=self.failures + 1)

    def mended(self) -> "Breaker":
        """The breaker after an answer."""
        return replace(self, failures=0)


@dataclass(slots=True)
class BreakerHolder:
    """The breaker of one channel in one process.

    Mails that were under way together when the channel went down count as one
    outage: each says which state it saw when it started.
    """

    state: Breaker = Breaker()

    def record(self, seen: Breaker, delivery: Delivery) -> None:
        """Take note of how a send that started at `seen` has ended."""
        match delivery:
            case ChannelDown():
                if self.state.failures == seen.failures:
                    self.state = self.state.tripped()
            case Delivered() | PermanentRefusal(code=int()) | TemporaryRefusal(code=int()):
                self.state = self.state.mended()
            case _:
                # Withheld, or no answer after the final dot: it says nothing of the channel.
                pass
