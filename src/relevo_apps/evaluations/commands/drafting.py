"""`relevo cycle` on a draft that exists: who takes part, who evaluates whom, and away with it."""

from pathlib import Path
from uuid import UUID

import click

from relevo import Operation
from relevo.cli import Shell, command, option, options, pass_shell, tenant_option
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands import showing
from relevo_apps.evaluations.commands.choosing import (
    read_participants,
    read_peers_file,
    require_known,
)
from relevo_apps.evaluations.commands.desk import Desk, actor_option, working
from relevo_apps.evaluations.commands.texts import cycle_fields
from relevo_apps.evaluations.model.cycles import Cycle
from relevo_apps.evaluations.model.reports import Added, Generated, Removed
from relevo_apps.evaluations.service.locking import read_cycle


@command("generate")
@click.argument("named", metavar="NAME|ID")
@tenant_option
@actor_option
@options()
@pass_shell
def generate(shell: Shell, /, *, named: str, tenant: str | None, actor: str | None) -> None:
    """Let the evaluations of a draft follow its rules and the present managers."""

    def generating(desk: Desk, cycle_id: UUID) -> Operation[tuple[Cycle, Generated]]:
        generated = yield from service.generate_evaluations(
            desk.tenant_id, cycle_id, actor=desk.actor
        )
        return (yield from read_cycle(desk.tenant_id, cycle_id)), generated

    with working(shell, tenant, actor) as desk:
        draft, generated = desk.do(generating(desk, desk.find_cycle(named)))
    showing.show_generated(shell, draft, generated)


@command("participants")
@click.argument("named", metavar="NAME|ID")
@option("--add", metavar="all|FILE|IDS", help="Who is to be evaluated as well.")
@option("--remove", metavar="FILE|IDS", help="Who is not to be evaluated any more.")
@tenant_option
@actor_option
@options()
@pass_shell
def participants(
    shell: Shell,
    /,
    *,
    named: str,
    add: str | None,
    remove: str | None,
    tenant: str | None,
    actor: str | None,
) -> None:
    """Change who takes part in a draft; the evaluations about whom is removed go too."""
    if add is None and remove is None:
        raise click.UsageError(_("give --add or --remove"))
    entering = None if add is None else read_participants(add, "--add")
    leaving = None if remove is None else read_participants(remove, "--remove")
    if remove is not None and leaving is None:
        raise click.BadParameter(
            _("name whom to remove; to give up the whole draft, delete it"), param_hint="--remove"
        )

    def changing(
        desk: Desk, cycle_id: UUID
    ) -> Operation[tuple[Cycle, Added | None, Removed | None]]:
        who = {"actor": desk.actor}
        added: Added | None = None
        removed: Removed | None = None
        if leaving is not None:
            removed = yield from service.remove_participants(
                desk.tenant_id, cycle_id, leaving, **who
            )
        if add is not None:
            added = yield from service.add_participants(desk.tenant_id, cycle_id, entering, **who)
        require_known(added)
        return (yield from read_cycle(desk.tenant_id, cycle_id)), added, removed

    with working(shell, tenant, actor) as desk:
        draft, added, removed = desk.do(changing(desk, desk.find_cycle(named)))
    showing.show_participants(shell, draft, added, removed)


@command("peers")
@click.argument("named", metavar="NAME|ID")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@tenant_option
@actor_option
@options()
@pass_shell
def peers(
    shell: Shell, /, *, named: str, file: Path, tenant: str | None, actor: str | None
) -> None:
    """Ask the peers of a CSV file, with the columns participant and peer, in a draft."""
    pairs = read_peers_file(shell, file).pairs

    def asking(desk: Desk, cycle_id: UUID) -> Operation[tuple[Cycle, Added]]:
        added = yield from service.add_peers(desk.tenant_id, cycle_id, pairs, actor=desk.actor)
        require_known(added)
        return (yield from read_cycle(desk.tenant_id, cycle_id)), added

    with working(shell, tenant, actor) as desk:
        draft, added = desk.do(asking(desk, desk.find_cycle(named)))
    showing.show_peers(shell, draft, added)


@command("delete")
@click.argument("named", metavar="NAME|ID")
@tenant_option
@actor_option
@options()
@pass_shell
def delete(shell: Shell, /, *, named: str, tenant: str | None, actor: str | None) -> None:
    """Give up a draft: it leaves the list, and its name is free again."""
    with working(shell, tenant, actor) as desk:
        cycle_id = desk.find_cycle(named)
        before = desk.do(read_cycle(desk.tenant_id, cycle_id))
        deleted = desk.do(service.delete_draft(desk.tenant_id, cycle_id, actor=desk.actor))
    if shell.out.as_json:
        shell.out.json({"cycle": cycle_fields(deleted)})
        return
    shell.out.line(_("deleted the draft %(name)s") % {"name": before.name})
