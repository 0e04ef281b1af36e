"""What can go wrong between two ends: for whom, in which direction, when and for how long."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What happens to a connection.

    Attributes:
        LATENCY: Every piece arrives later.
        THROTTLE: One byte a second arrives.
        BLACKHOLE: Packets are lost and nothing is acknowledged, as behind a pulled plug; the
            ends learn of it by their own patience, or never if it passes sooner.
        SWALLOW: Bytes are acknowledged and lost, as by something in between that has lost its
            own way on; it resets the connection in the end.
        HALF_CLOSE: One direction ends, the other goes on.
        RESET: Both ends are told that it is over.
        LOST_ANSWER: The server has done what a statement or a COMMIT asked, and its client
            never hears of it.
    """

    LATENCY = "latency"
    THROTTLE = "throttle"
    BLACKHOLE = "blackhole"
    SWALLOW = "swallow"
    HALF_CLOSE = "half_close"
    RESET = "reset"
    LOST_ANSWER = "lost_answer"


LASTING = frozenset({Kind.LATENCY, Kind.THROTTLE, Kind.BLACKHOLE, Kind.SWALLOW})
"""They meet also those who come while they last."""


class Direction(StrEnum):
    """Where bytes go."""

    TO_SERVER = "to the server"
    TO_CLIENT = "to the client"


BOTH = frozenset(Direction)
EVERYBODY = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        kind: What happens.
        whom: A pattern of the programs whose connections it happens to (their application_name).
        lasts: For how many seconds; for a lost answer, how long it is waited for.
        at: When it begins, in seconds after the script did.
        directions: Which of them; a reset and a lost answer know none.
        delay: The seconds that a piece is late, for latency.
        of: A pattern of what the server says that it has done, such as COMMIT, for a lost answer.
        meets_newcomers: Whether what lasts also happens to those who connect meanwhile.
    """

    kind: Kind
    whom: str = EVERYBODY
    lasts: float = 0.0
    at: float = 0.0
    directions: frozenset[Direction] = BOTH
    delay: float = 0.0
    of: str = ""
    meets_newcomers: bool = True

    def meets(self, program: str) -> bool:
        """Whether it happens to the connections of a program."""
        return re.search(self.whom, program) is not None
