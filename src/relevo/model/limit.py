"""How much of something may run at once, or start within a time."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, Literal

from relevo.model.checks import check_type
from relevo.model.errors import InvalidOption

MOST: Final = 10_000
LONGEST: Final = timedelta(days=1)


class Measure(StrEnum):
    """What a limit counts: jobs that run, starts within a time, or one after the other."""

    RUNNING = "running"
    STARTS = "starts"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many jobs of a kind at once, or so many starts within a time.

    ``Limit(10)``: ten run at once, over all workers and tenants. ``Limit(2, per="lane")``:
    two with the same lane key and tenant. ``Limit(50, within=timedelta(seconds=1))``: in no
    second do more than fifty start.

    Attributes:
        most: How many, from 0 (none) to 10000.
        per: The whole kind, or each lane of it by itself.
        within: None counts what runs at once; else starts in any time of this length, at
            most a day.

    Raises:
        InvalidOption: A value is of another type, or no limit can have it.
    """

    most: int
    per: Literal["kind", "lane"] = "kind"
    within: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse values that the table would refuse later."""
        check_limit(self.most, self.within)
        if self.per not in ("kind", "lane"):
            raise InvalidOption(
                option="per",
                value=self.per,
                why="a kind declares limits for itself or for each of its lanes",
                next="pass 'kind' or 'lane'; others are set with `relevo limits`",
            )

    @property
    def measure(self) -> Measure:
        """What it counts."""
        return Measure.RUNNING if self.within is None else Measure.STARTS

    @property
    def seconds(self) -> float | None:
        """In which time, where it counts starts."""
        return None if self.within is None else self.within.total_seconds()


def check_limit(most: int, within: timedelta | None) -> None:
    """Refuse a number or a time that a limit cannot have."""
    check_type("most", most, int)
    why = f"a limit is a whole number from 0 to {MOST}"
    if most < 0:
        raise InvalidOption(
            option="most",
            value=most,
            why=why,
            next="pass 0 to let nothing start, or a larger number",
        )
    if most > MOST:
        raise InvalidOption(
            option="most",
            value=most,
            why=why,
            next="pass a smaller number; for starts, count them in a shorter time",
        )
    if within is None:
        return
    check_type("within", within, timedelta)
    if not timedelta(0) < within <= LONGEST:
        raise InvalidOption(
            option="within",
            value=str(within),
            why="starts are counted in a time above zero and of at most a day",
            next="pass a time such as one second",
        )
