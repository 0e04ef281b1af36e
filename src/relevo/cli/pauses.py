"""`relevo pause`, `relevo resume` and `relevo pauses`: hold work back, and let it go on.

A pause keeps jobs from starting and never stops one that runs; `relevo drain` waits for those.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from relevo.api import perform
from relevo.cli.declare import command, option
from relevo.cli.durations import Duration
from relevo.cli.language import gettext as _
from relevo.cli.scopes import (
    Connection,
    as_worker,
    note_unknown,
    read_slugs,
    say_scope,
    say_thing,
    scope_arguments,
    scope_fields,
    shown_name,
)
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.waiting import say_pause
from relevo.db.dsn import WEB_ROLE
from relevo.engine import pauses as engine
from relevo.engine.pauses import PAUSED, Pause, Paused
from relevo.model.scope import Scope

reason_option: Final = option(
    "--reason", required=True, metavar="TEXT", help="Why, for those who find it paused."
)


@command("pause")
@scope_arguments(PAUSED)
@option(
    "--for",
    "for_",
    type=Duration(),
    metavar="TIME",
    help="For how long; else until it is resumed.",
)
@reason_option
@options()
@pass_shell
def pause(shell: Shell, /, *, scope: str, name: str, for_: timedelta | None, reason: str) -> None:
    """Start no more jobs of a queue, a kind or a tenant; what runs goes on."""
    what = Scope(scope)
    with shell.database() as database, as_worker(database) as connection:
        paused = begin_pause(shell, connection, what, name, reason=reason, for_=for_)
        slugs = read_slugs(connection, [what])
    if shell.out.as_json:
        fields = None if paused.pause is None else pause_fields(paused.pause, slugs)
        shell.out.json({"pause": fields, "kept": paused.is_kept})
        return
    said = _("its time is over already") if paused.pause is None else say_whole(paused.pause)
    shell.out.line(f"{say_thing(what, name)}: {said}")


def begin_pause(
    shell: Shell,
    connection: Connection,
    scope: Scope,
    name: str,
    *,
    reason: str,
    for_: timedelta | None = None,
) -> Paused:
    """Pause something, commit, and note what the person should know of it.

    Args:
        shell: Who asks, and where notes go.
        connection: One that commits by itself.
        scope: What is paused.
        name: Which one, as it was typed.
        reason: Why.
        for_: For how long; None means until it is resumed.
    """
    with connection.transaction():
        paused = perform(
            connection, engine.pause(scope, name, reason, for_=for_, actor=shell.actor)
        )
    thing = say_thing(scope, name)
    note_unknown(shell, connection, scope, name)
    if paused.is_kept:
        shell.out.note(
            _(
                "%(thing)s was paused as long or longer before, and that pause is kept; "
                "to replace it, run `relevo resume %(scope)s %(name)s` first"
            )
            % {"thing": thing, "scope": scope.value, "name": name}
        )
    return paused


@command("resume")
@scope_arguments(PAUSED)
@options()
@pass_shell
def resume(shell: Shell, /, *, scope: str, name: str) -> None:
    """Let jobs of a queue, a kind or a tenant start again, at once."""
    what = Scope(scope)
    with shell.database() as database, as_worker(database) as connection:
        stood = perform(connection, engine.resume(what, name))
    if shell.out.as_json:
        shell.out.json({"resumed": stood})
        return
    said = _("goes on") if stood else _("was not paused")
    shell.out.line(f"{say_thing(what, name)}: {said}")


@command("pauses")
@options()
@pass_shell
def pauses(shell: Shell) -> None:
    """List what is paused, until when, by whom and why."""
    with shell.database() as database, database.connect(WEB_ROLE) as connection:
        standing = perform(connection, engine.list_pauses())
        slugs = read_slugs(connection, [each.scope for each in standing])
    if shell.out.as_json:
        shell.out.json({"pauses": [pause_fields(each, slugs) for each in standing]})
        return
    if not standing:
        shell.out.note(_("nothing is paused"))
        return
    columns = [_("scope"), _("name"), _("since"), _("until"), _("by"), _("reason")]
    rows = [
        (
            say_scope(each.scope),
            shown_name(each.scope, each.name, slugs),
            each.paused_at,
            each.paused_until or _("it is resumed"),
            each.actor,
            each.reason,
        )
        for each in standing
    ]
    shell.out.table(columns, rows)


def pause_fields(pause: Pause, slugs: Mapping[str, str]) -> dict[str, object]:
    """Answer the fields of one pause, for machines.

    Args:
        pause: The pause.
        slugs: The slugs of tenants by their ids.
    """
    return {
        **scope_fields(pause.scope, pause.name, slugs),
        "paused_at": pause.paused_at,
        "paused_until": pause.paused_until,
        "reason": pause.reason,
        "actor": pause.actor,
    }


def say_whole(pause: Pause) -> str:
    """Say until when something rests, why, and who wanted it."""
    said = say_pause(pause.paused_until, pause.reason)
    return f"{said} ({pause.actor})" if pause.actor else said
