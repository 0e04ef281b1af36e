"""What the command prints: data on stdout, everything else on stderr.

On a terminal data is a table; in a pipe it is plain text in columns; with ``-o json``
it is one JSON document with English keys. Nothing that came from a row can move the
cursor or colour the screen.
"""

import json
import re
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import UUID

# Control characters, the C1 set, and the marks that turn the direction of text.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_GAP: Final = "  "

_SHORT: Final = 14
"""A column that needs no more is never broken: ids, states, numbers."""

_NARROWEST: Final = 14
"""A longer column is broken down to this, and no further."""


class Progress(Protocol):
    """A bar that is told how far the work is."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say how far the work is, and how much there is when that changes."""
        ...


class Printer:
    """Writes for one run of the command.

    Args:
        as_json: Whether data is one JSON document.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json

    def json(self, value: object) -> None:
        """Write the one JSON document of this run."""
        print(json.dumps(value, ensure_ascii=False, indent=2, default=_plain))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write rows under their columns' names."""
        texts = [[_cell(value) for value in row] for row in rows]
        if sys.stdout.isatty():
            self._drawn(columns, texts)
            return
        widths = [max(len(text) for text in column) for column in zip(columns, *texts, strict=True)]
        for line in (list(columns), *texts):
            padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
            print(_GAP.join(padded).rstrip())

    def fields(self, pairs: Mapping[str, object]) -> None:
        """Write one thing, a line for each of its fields; those that are None are left out."""
        shown = {name: value for name, value in pairs.items() if value is not None}
        width = max((len(name) for name in shown), default=0)
        for name, value in shown.items():
            first, *more = _text(value).splitlines() or [""]
            print(f"{name.ljust(width)}{_GAP}{first}".rstrip())
            for line in more:
                print(f"{' ' * width}{_GAP}{line}".rstrip())

    def line(self, text: str = "") -> None:
        """Write one line of data."""
        print(_text(text))

    def note(self, text: str) -> None:
        """Say something that is no data, on stderr."""
        print(_text(text), file=sys.stderr, flush=True)

    @contextmanager
    def progress(self, text: str, total: int | None = None) -> Generator[Progress, None, None]:
        """Show a bar on stderr while the block runs; nothing where stderr is no terminal.

        Args:
            text: What is going on.
            total: How much there is to do; None while nobody knows.
        """
        if not sys.stderr.isatty():
            yield _silent
            return
        # rich is heavy and drawn things are for people: only a terminal pays for it.
        from rich.console import Console  # noqa: PLC0415
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn  # noqa: PLC0415
        from rich.progress import Progress as Bar  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
        )
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(_text(text), total=total)
            known = total

            def show(done: int, total: int | None = None) -> None:
                nonlocal known
                known = known if total is None else total
                bar.update(task, completed=done, total=known)

            yield show

    def _drawn(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        # rich is heavy and drawn things are for people: only a terminal pays for it.
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415
        from rich.cells import cell_len  # noqa: PLC0415
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        console = Console(file=sys.stdout)
        natural = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
        widths = share_width(natural, console.width - len(_GAP) * (len(columns) - 1))
        if widths is None:
            self._listed(columns, rows)
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for column, width in zip(columns, widths, strict=True):
            table.add_column(Text(column), width=width, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)

    def _listed(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write each row as the fields of one thing: a table would not fit."""
        for place, row in enumerate(rows):
            if place:
                print()
            self.fields({name: cell or None for name, cell in zip(columns, row, strict=True)})


def share_width(natural: Sequence[int], width: int) -> list[int] | None:
    """Share the width of a terminal among columns; nothing is cut, long ones break their lines.

    Args:
        natural: How wide each column would be without a break.
        width: What there is for all of them.

    Returns:
        How wide each becomes, or None where they cannot stand side by side.
    """
    if sum(natural) <= width:
        return list(natural)
    least = [each if each <= _SHORT else _NARROWEST for each in natural]
    if sum(least) > width:
        return None
    shared, left = least, width - sum(least)
    while left:
        # The rest goes where most is missing, one place at a time.
        neediest = max(range(len(shared)), key=lambda place: natural[place] - shared[place])
        shared[neediest] += 1
        left -= 1
    return shared


def clean(text: str) -> str:
    """Show control characters as their codes, so that they do nothing to a terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _silent(done: int, total: int | None = None) -> None:
    """Show nothing."""


def _cell(value: object) -> str:
    return " ".join(_text(value).split())


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone().isoformat(sep=" ", timespec="seconds")
    if isinstance(value, dict | list):
        return clean(json.dumps(value, ensure_ascii=False, default=_plain))
    return clean(str(value))


def _plain(value: Any) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID | Path):
        return str(value)
    raise TypeError(type(value).__name__)
