"""The live view of `relevo top`: draws looks on the whole screen until a key ends it.

However it ends, the terminal is left as it was found.
"""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

import psycopg
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from relevo.cli.database import reason_of
from relevo.cli.errors import DatabaseUnreachable
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.cli.printing import clean
from relevo.cli.top_views import Section, sections, summary, trouble
from relevo.engine.watch import Look

_QUIT: Final = frozenset(b"qQ\x04")
"""The keys that end it: q, and the end of input."""

_PASSING: Final = (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnreachable)
"""What another look may get past."""

_AROUND: Final = 5
"""Lines above and below the tables."""

_OF_A_TABLE: Final = 3
"""Lines of a table beside its rows: an empty one, its title and its columns' names."""

_KILLED: Final = 128


def show_live(look: Callable[[], Look], address: str, every: float) -> None:
    """Draw a look, wait, and look again, until q is typed.

    Args:
        look: Looks once.
        address: Where it looks, fit to be shown.
        every: How many seconds to wait between two looks.
    """
    # The first look is outside the screen: what it refuses is said as in any other command.
    seen, failure = look(), ""
    console = Console()
    with suppress(KeyboardInterrupt), _ending_well(), _single_keys():
        screen = Live(console=console, screen=True, auto_refresh=False)
        with screen:
            while True:
                screen.update(_draw(seen, failure, address, console), refresh=True)
                if _is_quit_within(every):
                    return
                try:
                    seen, failure = look(), ""
                except _PASSING as error:
                    failure = _say(error)


def _draw(look: Look, failure: str, address: str, console: Console) -> RenderableType:
    width, height = console.size
    tables = sections(look)
    room = height - _AROUND - _OF_A_TABLE * len(tables)
    shares = _share([len(each.rows) for each in tables], room)
    lines: list[RenderableType] = [
        _line(f"relevo top · {address} · {look.looked_at.astimezone():%H:%M:%S}", "bold"),
        _line(summary(look)),
    ]
    for section, share in zip(tables, shares, strict=True):
        lines += [_line(""), _line(section.title, "bold"), _table(section, share, width)]
    said = failure or trouble(look)
    lines += [_line(""), _line(said, "bold") if said else _line(_("q ends"), "dim")]
    return Group(*lines)


def _line(text: str, style: str = "") -> Text:
    return Text(clean(text), style=style, no_wrap=True, overflow="ellipsis")


def _table(section: Section, share: int, width: int) -> Table:
    shown, left_out = _busiest(section, share)
    places = _fitting(section, width)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="reverse")
    for place in places:
        is_word = place < section.words
        table.add_column(
            Text(section.columns[place]),
            justify="left" if is_word else "right",
            no_wrap=True,
            overflow="ellipsis",
        )
    for row in shown:
        table.add_row(*(Text(clean(" ".join(row[place].split()))) for place in places))
    if left_out:
        more = ngettext("and %(count)d more", "and %(count)d more", left_out) % {"count": left_out}
        table.add_row(Text(more, style="dim"))
    return table


def _busiest(section: Section, share: int) -> tuple[Sequence[Sequence[str]], int]:
    """Answer the rows for which there is room, in their order, and how many are left out."""
    left_out = len(section.rows) - share
    if left_out <= 0:
        return section.rows, 0
    # One line says how many are not shown.
    places = sorted(range(len(section.rows)), key=lambda place: -section.weights[place])
    kept = sorted(places[: max(share - 1, 0)])
    return [section.rows[place] for place in kept], len(section.rows) - len(kept)


def _fitting(section: Section, width: int) -> list[int]:
    """Answer the columns that fit side by side; those that can be spared go first."""
    places = list(range(len(section.columns)))
    needed = [
        max(cell_len(cell) for cell in column) + 2
        for column in zip(section.columns, *section.rows, strict=True)
    ]
    for spare in section.spare:
        if sum(needed[place] for place in places) <= width:
            break
        places.remove(spare)
    return places


def _share(wanted: Sequence[int], room: int) -> list[int]:
    """Share the lines among the tables: each gets some, and none more than it needs."""
    shares = [0] * len(wanted)
    left = max(room, len(wanted))
    while left > 0 and shares != list(wanted):
        for place, wants in enumerate(wanted):
            if left > 0 and shares[place] < wants:
                shares[place] += 1
                left -= 1
    return shares


def _say(error: Exception) -> str:
    if isinstance(error, psycopg.Error):
        reason = reason_of(error)
    else:
        reason = str(getattr(error, "reason", error))
    return _("the database cannot be reached, trying again: %(reason)s") % {"reason": reason}


def _is_quit_within(seconds: float) -> bool:
    """Wait for a key that ends it; answer False where the time is over."""
    end = time.monotonic() + seconds
    keyboard = sys.stdin.fileno()
    while (left := end - time.monotonic()) > 0:
        if not select.select([keyboard], [], [], left)[0]:
            continue
        try:
            typed = os.read(keyboard, 64)
        except OSError:
            # The terminal has gone, and whoever looked at it.
            return True
        if not typed or _QUIT & set(typed):
            return True
    return False


@contextmanager
def _single_keys() -> Generator[None, None, None]:
    """Read keys as they are typed, without showing them."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _ending_well() -> Generator[None, None, None]:
    """Let SIGTERM end the block as an error would, so that the terminal is given back."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(_KILLED + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
