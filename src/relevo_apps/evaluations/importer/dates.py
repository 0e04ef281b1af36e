"""Read a date of a file, and refuse the one that means two days.

ISO dates are always understood. Day and month with slashes are read in the order that
was declared; without one, only where the numbers leave no choice.
"""

import re
from datetime import date
from enum import StrEnum

from relevo_apps.evaluations.importer.problems import ProblemKind

_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ]00:00(?::00(?:\.0+)?)?)?")
_MARKED = re.compile(r"(\d{1,2})([/.-])(\d{1,2})\2(\d{4})(?: 0?0:00(?::00)?)?")
_MONTHS = 12
_FIRST_YEAR, _LAST_YEAR = 1900, 2200


class DateOrder(StrEnum):
    """The order of the numbers in dates such as 03/04/2024."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"


def parse_date(text: str, order: DateOrder | None) -> date | ProblemKind:
    """Answer the day that a cell means, or why it means none.

    Args:
        text: A cleaned cell that is not empty.
        order: The declared order of day and month, if any.
    """
    if iso := _ISO.fullmatch(text):
        return _day(int(iso[1]), int(iso[2]), int(iso[3]))
    marked = _MARKED.fullmatch(text)
    if marked is None:
        return ProblemKind.DATE_BAD
    one, two, year = int(marked[1]), int(marked[3]), int(marked[4])
    if order is None:
        if one <= _MONTHS and two <= _MONTHS and one != two:
            return ProblemKind.DATE_AMBIGUOUS
        order = DateOrder.MONTH_FIRST if two > _MONTHS else DateOrder.DAY_FIRST
    if order is DateOrder.DAY_FIRST:
        return _day(year, two, one)
    return _day(year, one, two)


def _day(year: int, month: int, day: int) -> date | ProblemKind:
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return ProblemKind.DATE_BAD
    try:
        return date(year, month, day)
    except ValueError:
        return ProblemKind.DATE_BAD
