"""`relevo top`: watch queues and workers live, or look once.

It reads as a worker, changes nothing, and each of its statements ends within two seconds.
"""

import contextlib
import sys
from contextlib import ExitStack
from datetime import timedelta
from typing import Final, Self, TypeVar

import psycopg

from relevo.api import perform
from relevo.cli.database import Database
from relevo.cli.declare import command, option
from relevo.cli.durations import Duration
from relevo.cli.language import gettext as _
from relevo.cli.scopes import Connection
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.top_views import fields, sections, summary, trouble
from relevo.db.dsn import PLAN_SETTINGS, WORKER_ROLE
from relevo.db.operation import Operation
from relevo.engine.watch import (
    Look,
    look_at_ended,
    look_at_live,
    look_at_standing,
    look_at_uses,
    put_together,
)

T = TypeVar("T")

SETTINGS: Final = {
    **PLAN_SETTINGS,
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "statement_timeout": "2s",
}

ROWS: Final = 100_000
LEAST_ROWS: Final = 1_000
"""How many live jobs, and how many ended ones, a look reads; fewer where it takes too long."""

WINDOW: Final = (5.0, 60.0)
"""Rates are counted over the time between two looks, but not over less or more than this."""

LEAST_WINDOW: Final = 0.5

LEAST_EVERY: Final = timedelta(milliseconds=500)
"""Nobody reads faster, and each look costs the database."""

ONCE: Final = 10.0
"""The window of a single look, in seconds."""


class Watcher:
    """Looks again and again on one connection, and opens another when it breaks.

    Args:
        database: Where to look.
        window: Over how many seconds rates are counted, if that is not too much to read.
    """

    def __init__(self, database: Database, window: float) -> None:
        self._database = database
        self._goal = self._window = window
        self._rows = ROWS
        self._open = ExitStack()
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def look(self) -> Look:
        """Look once; a part that takes too long is missing, and the next look reads less.

        Raises:
            DatabaseUnreachable: Nobody answers.
            psycopg.Error: What the server said; the next look may well succeed.
        """
        if self._connection is None:
            opening = self._database.connect(WORKER_ROLE, settings=SETTINGS)
            self._connection = self._open.enter_context(opening)
        connection, rows, window = self._connection, self._rows, self._window
        try:
            live = _try(connection, look_at_live(rows=rows, window=window))
            ended = _try(connection, look_at_ended(rows=rows, window=window))
            limits = _try(connection, look_at_uses())
            standing = perform(connection, look_at_standing())
        except psycopg.Error:
            self._drop()
            raise
        if live is None or ended is None:
            self._rows = max(rows // 10, LEAST_ROWS)
        elif ended.read >= rows:
            # More has ended than was read; over a shorter time the rates are right again.
            self._window = max(window / 2, LEAST_WINDOW)
        elif ended.read * 3 < rows:
            self._window = min(window * 2, self._goal)
        return put_together(standing, live, ended, limits, window)

    def _drop(self) -> None:
        self._connection = None
        # Closing what is broken breaks too, and nobody needs to know.
        with contextlib.suppress(psycopg.Error):
            self._open.close()


@command("top")
@option("--once", is_flag=True, help="Look once and end.")
@option(
    "--every",
    type=Duration(least=LEAST_EVERY),
    default="2s",
    show_default=True,
    help="How often to look.",
)
@options()
@pass_shell
def top(shell: Shell, /, *, once: bool, every: timedelta) -> None:
    """Watch queues and workers live: what waits, runs, ends, and how fast.

    It counts live jobs and those that have just ended, each up to a bound, and changes
    nothing. A plus behind a number says that there are more. The key q ends it.
    """
    with shell.database() as database:
        if once or shell.out.as_json or not _is_screen():
            if not (once or shell.out.as_json):
                shell.out.note(_("this is no terminal, so there is one look and no more"))
            with Watcher(database, ONCE) as watcher:
                _show_once(shell, watcher.look())
            return
        # rich is heavy, and only a live view needs it.
        from relevo.cli.top_screen import show_live  # noqa: PLC0415 -- the reason above

        seconds = every.total_seconds()
        with Watcher(database, min(max(seconds, WINDOW[0]), WINDOW[1])) as watcher:
            show_live(watcher.look, database.address, seconds)


def _try(connection: Connection, operation: Operation[T]) -> T | None:
    """Run a part of a look; answer None where it took too long."""
    try:
        return perform(connection, operation)
    except psycopg.errors.QueryCanceled:
        return None


def _is_screen() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from rich.console import Console  # noqa: PLC0415 -- only a terminal pays for it

    return not Console().is_dumb_terminal


def _show_once(shell: Shell, look: Look) -> None:
    if shell.out.as_json:
        shell.out.json(fields(look))
        return
    shell.out.line(summary(look))
    for section in sections(look):
        shell.out.line()
        shell.out.line(section.title)
        shell.out.table(section.columns, section.rows)
    if missing := trouble(look):
        shell.out.note(missing)
