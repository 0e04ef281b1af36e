"""`relevo limits`: what may run at once or start within a time, and how much of it is in use.

Limits that code declares are listed too; one that is set here takes their place.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import click

from relevo.api import perform
from relevo.cli.declare import Group, Whole, option
from relevo.cli.durations import Duration, write_duration
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
from relevo.engine import limits as engine
from relevo.engine.limits import EACH_TENANT, LimitRow
from relevo.engine.scopes import read_name, tell_workers
from relevo.model.limit import MOST, Measure
from relevo.model.scope import Scope

_LIMITED: Final = tuple(Scope)


@click.group("limits", cls=Group, invoke_without_command=True)
@options()
@click.pass_context
def limits(ctx: click.Context) -> None:
    """List limits and how much of them is in use; set and remove them."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_all)


@limits.command("list")
@options()
@pass_shell
def list_all(shell: Shell) -> None:
    """List limits and how many jobs use them now."""
    with shell.database() as database, as_worker(database) as connection:
        found = perform(connection, engine.list_limits())
        slugs = read_slugs(connection, [each.scope for each in found])
    if shell.out.as_json:
        shell.out.json({"limits": [limit_fields(each, slugs) for each in found]})
        return
    if not found:
        shell.out.note(_("nothing is limited"))
        return
    columns = [_("scope"), _("name"), _("limit"), _("in use"), _("since"), _("by")]
    rows = [
        (
            say_scope(each.scope),
            shown_name(each.scope, each.name, slugs),
            say_limit(each),
            each.used,
            each.set_at,
            each.actor or _("the code"),
        )
        for each in found
    ]
    shell.out.table(columns, rows)


@limits.command("set")
@scope_arguments(_LIMITED)
@click.argument("most", type=Whole(0, MOST), metavar="MOST")
@option(
    "--within",
    type=Duration(),
    metavar="TIME",
    help="Limit the starts in any time of this length; else what runs at once.",
)
@options()
@pass_shell
def set_one(shell: Shell, /, *, scope: str, name: str, most: int, within: timedelta | None) -> None:
    """Let at most MOST jobs run at once, or start within a time.

    A tenant is named by slug or id, or * for each that has no limit of its own; lane
    means each lane of the kind NAME. What runs goes on, and counts.
    """
    what = Scope(scope)
    with shell.database() as database, as_worker(database) as connection:
        target = _target(connection, what, name)
        with connection.transaction():
            setting = engine.set_limit(what, target, most, within=within, actor=shell.actor)
            perform(connection, setting)
            stands = _find(connection, what, target, starts=within is not None)
        perform(connection, tell_workers(what, target))
        if target != EACH_TENANT:
            note_unknown(shell, connection, what, name)
        slugs = read_slugs(connection, [what])
    if shell.out.as_json:
        shell.out.json({"limit": limit_fields(stands, slugs)})
        return
    shell.out.line(f"{say_thing(what, name)}: {say_limit(stands)}")
    is_one = what is not Scope.LANE and target != EACH_TENANT
    if is_one and stands.used > most:
        shell.out.note(
            _("%(used)d run or have started already; nothing more starts until fewer do")
            % {"used": stands.used}
        )


@limits.command("remove")
@scope_arguments(_LIMITED)
@option("--starts", is_flag=True, help="The limit of starts within a time.")
@options()
@pass_shell
def remove(shell: Shell, /, *, scope: str, name: str, starts: bool) -> None:
    """Remove the limit of what runs at once, or with --starts of what starts within a time.

    One that the code declares comes back when a worker with that code starts.
    """
    what = Scope(scope)
    with shell.database() as database, as_worker(database) as connection:
        target = _target(connection, what, name)
        with connection.transaction():
            removed = perform(connection, engine.remove_limit(what, target, of_starts=starts))
        if removed:
            perform(connection, tell_workers(what, target))
    if shell.out.as_json:
        shell.out.json({"removed": removed})
        return
    said = _("the limit is removed") if removed else _("there was no such limit")
    shell.out.line(f"{say_thing(what, name)}: {said}")


def limit_fields(limit: LimitRow, slugs: Mapping[str, str]) -> dict[str, Any]:
    """Answer the fields of one limit, for machines.

    Args:
        limit: The limit.
        slugs: The slugs of tenants by their ids.
    """
    return {
        **scope_fields(limit.scope, limit.name, slugs),
        "measure": limit.measure,
        "most": limit.most,
        "seconds": limit.seconds,
        "used": limit.used,
        "set_at": limit.set_at,
        "actor": limit.actor,
    }


def say_limit(limit: LimitRow) -> str:
    """Say what a limit allows."""
    if limit.measure is Measure.ORDER:
        return _("one after the other")
    if limit.seconds is None:
        return _("%(most)d at once") % {"most": limit.most}
    within = write_duration(timedelta(seconds=limit.seconds))
    return _("%(most)d starts within %(within)s") % {"most": limit.most, "within": within}


def _target(connection: Connection, scope: Scope, name: str) -> str:
    if scope is Scope.TENANT and name == EACH_TENANT:
        return name
    return perform(connection, read_name(scope, name))


def _find(connection: Connection, scope: Scope, name: str, *, starts: bool) -> LimitRow:
    measure = Measure.STARTS if starts else Measure.RUNNING
    found = perform(connection, engine.list_limits())
    return next(
        each for each in found if (each.scope, each.name, each.measure) == (scope, name, measure)
    )
