"""How long the rows of finished jobs stay."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from relevo.model.checks import check_type

DAYS_COMPLETED: Final = timedelta(days=7)
DAYS_FAILED: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long finished jobs of a kind stay in the table.

    Attributes:
        completed: After a success; None keeps the rows until their owner is purged.
        failed: After a failure or a cancel; None as above.

    Raises:
        InvalidOption: A value is neither a time nor None.
    """

    completed: timedelta | None = DAYS_COMPLETED
    failed: timedelta | None = DAYS_FAILED

    def __post_init__(self) -> None:
        """Refuse what could not be counted in seconds when a job ends."""
        for option in ("completed", "failed"):
            if (kept := getattr(self, option)) is not None:
                check_type(option, kept, timedelta)

    def keep(self, *, completed: bool) -> float | None:
        """Answer how many seconds a row stays, or None where it is kept."""
        kept = self.completed if completed else self.failed
        return None if kept is None else kept.total_seconds()


DEFAULT_RETENTION: Final = Retention()

KEEP: Final = Retention(completed=None, failed=None)
"""For kinds whose rows an application's unique index relies on."""
