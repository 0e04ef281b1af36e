"""`relevo demo`: show the main job whole, in seconds, and end with figures that add up."""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import BinaryIO, Final, NoReturn

import click

from relevo import DEFAULT_TENANT, WEB_ROLE
from relevo.cli import Exit, Shell, Whole, command, option, options
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands.desk import Desk
from relevo_apps.evaluations.commands.texts import show_findings, show_problems
from relevo_apps.evaluations.demo import story
from relevo_apps.evaluations.demo.closing import show_end
from relevo_apps.evaluations.demo.figures import Figures, MailFigures
from relevo_apps.evaluations.demo.place import Place, open_place, remove
from relevo_apps.evaluations.demo.relay import relaying
from relevo_apps.evaluations.generator import LARGEST, SMALLEST, generate_organisation
from relevo_apps.evaluations.importer import PeopleFile, read_people
from relevo_apps.evaluations.jobs import LARGEST_SCALE

NAME: Final = "Demo"
SIZE: Final = 1000
SCALE: Final = 0.01
SEED: Final = 2


@command("demo")
@option("--people", type=click.File("rb"), help="A people file; else an organisation is made up.")
@option(
    "--size",
    type=Whole(SMALLEST, LARGEST),
    default=SIZE,
    show_default=True,
    help="How many people to make up.",
)
@option(
    "--seed",
    type=int,
    default=SEED,
    show_default=True,
    help="Decides who is made up, and which mailboxes refuse.",
)
@option(
    "--backoff",
    type=click.FloatRange(0, LARGEST_SCALE, min_open=True),
    default=SCALE,
    show_default=True,
    help="What the waits between retries are multiplied by; 1 waits for minutes.",
)
@option("--keep", is_flag=True, help="Leave the database, and say how to look further.")
@option(
    "--remove",
    "removed",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Remove what an earlier run with --keep left in this folder, and do nothing else.",
)
@options()
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    people: BinaryIO | None,
    size: int,
    seed: int,
    backoff: float,
    keep: bool,
    removed: Path | None,
) -> None:
    """Show the main job whole, on a database of its own.

    People come in, a cycle is prepared, rehearsed and activated in one transaction, and a
    worker delivers every notification to a mail server on this machine that refuses some.
    """
    shell = ctx.ensure_object(Shell)
    if removed is not None:
        remove(removed.absolute())
        shell.out.note(_("removed: %(folder)s") % {"folder": removed})
        return
    began = time.monotonic()
    with _stopped_by_sigterm():
        shell.out.note(_("A database of its own is made for this demonstration …"))
        with open_place(shell) as place:
            file = read_people(people or generate_organisation(size, seed=seed).csv().encode())
            figures = _play(ctx, shell, place, file, seed=seed, backoff=backoff)
            place.is_kept = keep
            show_end(shell, place, figures, NAME, time.monotonic() - began)
    if not figures.adds_up:
        ctx.exit(Exit.CHECK_FAILED)


def _play(
    ctx: click.Context,
    shell: Shell,
    place: Place,
    file: PeopleFile,
    *,
    seed: int,
    backoff: float,
) -> Figures:
    """Tell the story from the first step to the last."""
    say = shell.out.note
    with place.database.connect(WEB_ROLE) as connection:
        desk = Desk(connection, DEFAULT_TENANT, shell.actor)
        report = story.bring_in(desk, file)
        if not report.applied:
            show_problems(shell, _("Problems"), report.problems)
            ctx.exit(Exit.ERROR)
        head = report.headcount
        say(
            _("1. Imported: %(people)d people, %(managers)d of them lead somebody.")
            % {"people": head.people, "managers": head.managers}
        )
        draft, generated = story.prepare(desk, NAME)
        say(
            _("2. Prepared a draft with %(count)d evaluations: self, manager, upward.")
            % {"count": generated.total}
        )
        preflight = story.rehearse(desk, draft)
        if preflight.refusal is not None:
            show_findings(shell, _("Blocked"), preflight.blocked, NAME)
            ctx.exit(Exit.BLOCKED)
        say(
            _("3. Rehearsed and took back: it would send %(count)d mails, warnings: %(warnings)d.")
            % {"count": preflight.notifications, "warnings": len(preflight.warnings)}
        )
        activated = story.activate(desk, draft)
        say(
            _(
                "4. Activated in one transaction: %(statements)d statements, %(seconds).2f s "
                "(without the hold of ten minutes that a real activation has)."
            )
            % {"statements": activated.statements, "seconds": activated.seconds}
        )
        refusal = story.try_again(desk, draft)
        say(_("5. A second activation was refused.") if refusal else _("5. NOT REFUSED TWICE!"))
        say(
            _(
                "6. A worker delivers to a mail server on this machine that refuses some; "
                "waits between retries are multiplied by %(scale)g."
            )
            % {"scale": backoff}
        )
        with (
            relaying(place, seed, backoff) as relay,
            shell.out.progress(_("delivered"), activated.done.notifications) as show,
        ):
            status = relay.watch(desk, draft, show)
            mail = MailFigures.of(relay.sink)
        headcount = desk.look(service.count_people(desk.tenant_id))
    return Figures(headcount, preflight, activated, refusal is not None, status, mail, seed)


@contextmanager
def _stopped_by_sigterm() -> Generator[None, None, None]:
    """Let SIGTERM end the block as Ctrl-C does, so that everything started is stopped."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
