"""Durations as people write them: 30, 30s, 500ms, 2m, 1h."""

import re
from datetime import timedelta
from typing import Any, Final

import click

from relevo.cli.language import gettext as _

LONGEST: Final = timedelta(days=36525)
"""Beyond a hundred years neither Python nor PostgreSQL can add it to a date."""

_WRITTEN: Final = re.compile(r"(?P<number>\d+(\.\d+)?)\s*(?P<unit>ms|s|m|h)?")
_SECONDS: Final = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600}
_UNITS: Final = {"h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}


def write_duration(span: timedelta) -> str:
    """Write a span of whole milliseconds as people would: 30s, 500ms, 2m, 1h."""
    for unit, length in _UNITS.items():
        if span and not span % length:
            return f"{span // length}{unit}"
    return f"{span // timedelta(milliseconds=1)}ms"


class Duration(click.ParamType[timedelta]):
    """An option's value that is a time span; a bare number counts seconds.

    Args:
        zero: Whether a span of zero is accepted.
        least: The shortest span that makes sense, besides zero.
    """

    name = "duration"

    def __init__(self, *, zero: bool = False, least: timedelta = timedelta(0)) -> None:
        self.zero = zero
        self.least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read what was written."""
        if isinstance(value, timedelta):
            return value
        match = _WRITTEN.fullmatch(str(value).strip().lower())
        if match:
            seconds = float(match["number"]) * _SECONDS[match["unit"]]
            if (seconds > 0 or self.zero) and seconds <= LONGEST.total_seconds():
                span = timedelta(seconds=seconds)
                if span < self.least:
                    too_short = _("%(value)r is too short; pass %(least)s or more")
                    said = {"value": value, "least": write_duration(self.least)}
                    self.fail(too_short % said, param, ctx)
                return span
        return self.fail(
            _("%(value)r is no duration; write it like 30s, 500ms, 2m or 1h") % {"value": value},
            param,
            ctx,
        )
