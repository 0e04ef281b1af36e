"""What lists of cycles show, and why mail may be resting."""

from dataclasses import dataclass
from datetime import datetime

from relevo_apps.evaluations.model.cycles import Cycle


@dataclass(frozen=True, slots=True)
class CycleLine:
    """A cycle as the list shows it.

    Attributes:
        cycle: The cycle.
        participants: How many people it evaluates.
        evaluations: How many evaluations it has.
    """

    cycle: Cycle
    participants: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Why no mail goes out at this moment.

    Attributes:
        until: When it is tried again.
        reason: What is the matter, readable.
    """

    until: datetime
    reason: str
