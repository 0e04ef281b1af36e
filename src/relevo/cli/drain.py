"""`relevo drain`: pause something, and wait until nothing of it runs."""

import time
from datetime import timedelta
from typing import Final

from relevo.api import perform
from relevo.cli.declare import command, option
from relevo.cli.durations import Duration, write_duration
from relevo.cli.exits import Exit, register_exit
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.cli.pauses import begin_pause, pause_fields, reason_option
from relevo.cli.scopes import Connection, as_worker, read_slugs, say_thing, scope_arguments
from relevo.cli.shell import Shell, options, pass_shell
from relevo.engine import pauses as engine
from relevo.engine.pauses import PAUSED, Look
from relevo.engine.scopes import read_name
from relevo.errors import RelevoError
from relevo.model.scope import Scope

LOOK: Final = 0.5
"""Seconds between two looks."""

SHARE: Final = 5.0
"""Looking rests for so many times its own cost, so that a long table is not read all the time."""


class DrainTimedOut(RelevoError):
    """Something still ran when the time was over."""

    template = (
        "%(thing)s is not at rest after %(timeout)s: %(left)s; it stays paused, so wait on with "
        "the same command, or let it go on with `relevo resume %(scope)s %(name)s`"
    )


class DrainEnded(RelevoError):
    """Somebody resumed what was being drained."""

    template = (
        "somebody has let %(thing)s go on while it was drained, so its jobs may start; "
        "agree with them, then begin again"
    )


register_exit(DrainTimedOut, Exit.CHECK_FAILED)
register_exit(DrainEnded, Exit.CONFLICT)


@command("drain")
@scope_arguments(PAUSED)
@reason_option
@option(
    "--timeout",
    type=Duration(zero=True),
    default="5m",
    show_default=True,
    metavar="TIME",
    help="How long to wait for what runs.",
)
@options()
@pass_shell
def drain(shell: Shell, /, *, scope: str, name: str, reason: str, timeout: timedelta) -> None:
    """Pause a queue, a kind or a tenant, and wait until nothing of it runs.

    The pause stands afterwards, also where the time is over or the wait is interrupted.
    """
    what = Scope(scope)
    with shell.database() as database, as_worker(database) as connection:
        paused = begin_pause(shell, connection, what, name, reason=reason)
        try:
            _wait(shell, connection, what, name, timeout)
        except KeyboardInterrupt:
            shell.out.note(_("%(thing)s stays paused") % {"thing": say_thing(what, name)})
            raise
        slugs = read_slugs(connection, [what])
    if shell.out.as_json:
        fields = None if paused.pause is None else pause_fields(paused.pause, slugs)
        shell.out.json({"pause": fields, "kept": paused.is_kept, "running": 0})
        return
    shell.out.line(
        _("%(thing)s: nothing runs and nothing starts, until `relevo resume %(scope)s %(name)s`")
        % {"thing": say_thing(what, name), "scope": scope, "name": name}
    )


def _wait(
    shell: Shell, connection: Connection, scope: Scope, name: str, timeout: timedelta
) -> None:
    """Look again and again until nothing runs, saying what is left whenever that changes."""
    target = perform(connection, read_name(scope, name))
    named = {"thing": say_thing(scope, name), "scope": scope.value, "name": name}
    end = time.monotonic() + timeout.total_seconds()
    claims: frozenset[str] | None = None
    told = ""
    while True:
        began = time.monotonic()
        seen = perform(connection, engine.look(scope, target, claims))
        claims, now = seen.claims, time.monotonic()
        if seen.is_over:
            return
        if not seen.is_paused:
            raise DrainEnded(**named)
        left = _say_left(seen)
        if now >= end:
            raise DrainTimedOut(**named, timeout=write_duration(timeout), left=left)
        if left != told:
            shell.out.note(f"{named['thing']}: {left}")
            told = left
        time.sleep(min(max(LOOK, (now - began) * SHARE), end - now))


def _say_left(seen: Look) -> str:
    if seen.running:
        said = ngettext("%(count)d job still runs", "%(count)d jobs still run", seen.running)
        return said % {"count": seen.running}
    return _("a claim from before the pause is under way")
