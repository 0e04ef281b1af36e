"""`relevo cycle`: prepare a cycle, rehearse, activate, recall, and follow it."""

from datetime import date, timedelta
from pathlib import Path
from uuid import UUID

import click

from relevo import Operation, RelevoError, wake
from relevo.cli import Duration, Exit, Shell, group, option, options, pass_shell, tenant_option
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands import drafting, following, showing
from relevo_apps.evaluations.commands.choosing import (
    EVERYBODY,
    Day,
    Rules,
    read_name,
    read_participants,
    read_peers_file,
    require_known,
)
from relevo_apps.evaluations.commands.desk import Desk, actor_option, working
from relevo_apps.evaluations.commands.texts import (
    finding_fields,
    say_finding,
    show_findings,
)
from relevo_apps.evaluations.errors import ActivationBlocked, CycleNotFound
from relevo_apps.evaluations.model.cycles import Cycle, Dispatch, Relation
from relevo_apps.evaluations.model.findings import split_findings
from relevo_apps.evaluations.model.reports import Added, Generated
from relevo_apps.evaluations.service.drafts import USUAL_RULES
from relevo_apps.evaluations.service.listing import list_cycles, mail_pause

_hold = option(
    "--hold",
    type=Duration(zero=True),
    default="10m",
    show_default=True,
    help="How long nothing is sent, so that the activation can be recalled.",
)


@group("cycle")
@options()
def cycle() -> None:
    """Prepare, activate and follow evaluation cycles."""


@cycle.command("create")
@click.argument("name", callback=read_name)
@option(
    "--rules",
    type=Rules(),
    default=",".join(USUAL_RULES),
    show_default=True,
    help="Who evaluates: self, manager, upward, peer, with commas.",
)
@option(
    "--peers",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A CSV file with the columns participant and peer.",
)
@option(
    "--participants",
    metavar="all|FILE|IDS",
    default=EVERYBODY,
    show_default=True,
    help="Who is evaluated: everybody, a file with one id a line, or ids with commas.",
)
@option(
    "--due",
    type=Day(),
    metavar="YYYY-MM-DD",
    help="The day until which evaluations are expected.",
)
@tenant_option
@actor_option
@options()
@click.pass_context
def create(
    ctx: click.Context,
    *,
    name: str,
    rules: tuple[Relation, ...],
    peers: Path | None,
    participants: str,
    due: date | None,
    tenant: str | None,
    actor: str | None,
) -> None:
    """Create a draft with its participants and evaluations, all of it or nothing."""
    shell = ctx.ensure_object(Shell)
    chosen = read_participants(participants)
    if peers is None and rules == (Relation.PEER,):
        raise click.UsageError(
            _("peers alone are asked and none are named; give them with --peers")
        )
    pairs = None if peers is None else read_peers_file(shell, peers)

    def creating(desk: Desk) -> Operation[tuple[Cycle, Added, Added | None, Generated]]:
        who = {"actor": desk.actor}
        draft = yield from service.create_cycle(
            desk.tenant_id, name, rules=rules, due_on=due, **who
        )
        added = yield from service.add_participants(desk.tenant_id, draft.id, chosen, **who)
        named: Added | None = None
        if pairs is not None:
            named = yield from service.add_peers(desk.tenant_id, draft.id, pairs.pairs, **who)
        require_known(added, named)
        generated = yield from service.generate_evaluations(desk.tenant_id, draft.id, **who)
        return draft, added, named, generated

    with working(shell, tenant, actor) as desk:
        draft, added, named, generated = desk.do(creating(desk))
    showing.show_created(shell, draft, added, named, generated)


@cycle.command("preflight")
@click.argument("named", metavar="NAME|ID")
@_hold
@tenant_option
@actor_option
@options()
@click.pass_context
def preflight(
    ctx: click.Context, *, named: str, hold: timedelta, tenant: str | None, actor: str | None
) -> None:
    """Rehearse the activation and take it back: who is ready, what warns, what blocks."""
    shell = ctx.ensure_object(Shell)
    with working(shell, tenant, actor) as desk:
        cycle_id = desk.find_cycle(named)
        rehearsal = service.preflight(
            desk.tenant_id, cycle_id, actor=desk.actor, dispatch=Dispatch(hold=hold)
        )
        seen = desk.do(rehearsal, keep=False)
    showing.show_preflight(shell, seen)
    if seen.refusal is not None:
        blocked = isinstance(seen.refusal, ActivationBlocked)
        ctx.exit(Exit.BLOCKED if blocked else Exit.CONFLICT)


@cycle.command("activate")
@click.argument("named", metavar="NAME|ID")
@_hold
@tenant_option
@actor_option
@options()
@pass_shell
def activate(
    shell: Shell, *, named: str, hold: timedelta, tenant: str | None, actor: str | None
) -> None:
    """Activate the cycle, its evaluations and one notification a person, in one transaction."""
    with working(shell, tenant, actor) as desk:
        cycle_id = desk.find_cycle(named)
        activation = service.activate(
            desk.tenant_id, cycle_id, actor=desk.actor, dispatch=Dispatch(hold=hold), wake=wake
        )
        try:
            done = desk.do(activation)
        except RelevoError as refusal:
            record_refusal(desk, refusal, cycle_id)
            if isinstance(refusal, ActivationBlocked):
                raise _explained(shell, refusal) from None
            raise
    showing.show_activation(shell, done)


@cycle.command("recall")
@click.argument("named", metavar="NAME|ID")
@tenant_option
@actor_option
@options()
@pass_shell
def recall(shell: Shell, *, named: str, tenant: str | None, actor: str | None) -> None:
    """Take an activation back, and say who had been written to by then."""
    with working(shell, tenant, actor) as desk:
        cycle_id = desk.find_cycle(named)
        done = desk.do(service.recall(desk.tenant_id, cycle_id, actor=desk.actor))
    showing.show_recall(shell, done)


@cycle.command("status")
@click.argument("named", metavar="NAME|ID")
@option("--people", is_flag=True, help="List everybody's notification.")
@tenant_option
@options()
@pass_shell
def status(shell: Shell, *, named: str, people: bool, tenant: str | None) -> None:
    """Say how far a cycle is, in figures that add up."""
    with working(shell, tenant) as desk:
        cycle_id = desk.find_cycle(named)

        def looking() -> Operation[following.Seen]:
            seen = yield from service.cycle_status(desk.tenant_id, cycle_id)
            pause = yield from mail_pause()
            listed = (
                yield from following.everybody(desk.tenant_id, cycle_id) if people else _nobody()
            )
            return following.Seen(seen, pause, listed)

        seen = desk.look(looking())
    following.show_status(shell, seen)


@cycle.command("list")
@tenant_option
@options()
@pass_shell
def list_all(shell: Shell, *, tenant: str | None) -> None:
    """List the cycles, the newest first."""
    with working(shell, tenant) as desk:
        lines = desk.look(list_cycles(desk.tenant_id))
    following.show_list(shell, lines)


for _each in (drafting.generate, drafting.participants, drafting.peers, drafting.delete):
    cycle.add_command(_each)


def record_refusal(desk: Desk, refusal: RelevoError, cycle_id: UUID) -> None:
    """Record that an activation was refused, after its own transaction is gone."""
    recording = service.record_refusal(desk.tenant_id, cycle_id, refusal, actor=desk.actor)
    if not isinstance(refusal, CycleNotFound):
        desk.do(recording)


def _explained(shell: Shell, refusal: ActivationBlocked) -> ActivationBlocked:
    """Show what blocks, and answer the refusal with its first reason in the run's language."""
    blocked, warnings = split_findings(list(refusal.findings))
    name = str(refusal.fields["name"])
    if shell.out.as_json:
        shell.out.json(
            {
                "blocked": [finding_fields(each, name) for each in blocked],
                "warnings": [finding_fields(each, name) for each in warnings],
            }
        )
    else:
        show_findings(shell, _("Blocked"), blocked, name)
        show_findings(shell, _("Worth a look"), warnings, name)
    return type(refusal)(**{**refusal.fields, "first": say_finding(blocked[0])})


def _nobody() -> Operation[None]:
    return None
    yield
