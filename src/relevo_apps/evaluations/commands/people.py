"""`relevo people`: bring a people file in, or make one up."""

from typing import Any, BinaryIO

import click

from relevo.cli import Exit, Shell, Whole, group, option, options, tenant_option
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands.desk import working
from relevo_apps.evaluations.commands.texts import problem_fields, show_problems
from relevo_apps.evaluations.generator import LARGEST, SMALLEST, generate_organisation
from relevo_apps.evaluations.importer import DateOrder, ImportReport, ReadOptions, read_people
from relevo_apps.evaluations.model.people import Language


@group("people")
@options()
def people() -> None:
    """Import the people of an organisation."""


@people.command("import")
@click.argument("file", type=click.File("rb"))
@option(
    "--dry-run", is_flag=True, help="Check everything, import nothing; exit code 6 on problems."
)
@option("--partial", is_flag=True, help="Import the good rows although others are refused.")
@option(
    "--language",
    type=click.Choice([language.value for language in Language]),
    default=Language.ENGLISH.value,
    show_default=True,
    help="The language of new people of whom the file says none.",
)
@option(
    "--dates",
    type=click.Choice([order.value for order in DateOrder]),
    help="The order of day and month in dates such as 03/04/2024.",
)
@tenant_option
@options()
@click.pass_context
def import_file(
    ctx: click.Context,
    *,
    file: BinaryIO,
    dry_run: bool,
    partial: bool,
    language: str,
    dates: str | None,
    tenant: str | None,
) -> None:
    """Import a people file (CSV with headers in English, Spanish or Portuguese).

    All rows, or none when one is refused. The same file again changes nothing.
    """
    shell = ctx.ensure_object(Shell)
    reading = ReadOptions(
        date_order=DateOrder(dates) if dates else None, default_language=Language(language)
    )
    read = read_people(file, reading)
    with working(shell, tenant) as desk:
        report = desk.do(
            service.import_people(desk.tenant_id, read, partial=partial), keep=not dry_run
        )
    _show(shell, report, dry_run=dry_run, whole=not read.is_readable)
    if report.refused or report.problems:
        if dry_run:
            ctx.exit(Exit.BLOCKED)
        if not report.applied:
            ctx.exit(Exit.ERROR)


@people.command("generate")
@click.argument("size", type=Whole(SMALLEST, LARGEST), metavar="N")
@option(
    "--seed", type=int, default=1, show_default=True, help="The same seed makes the same people."
)
@option(
    "--to",
    "target",
    type=click.File("wb", lazy=True),
    default="-",
    metavar="FILE",
    help="Where the file is written; else on the screen.",
)
@options(database=False, output=False)
def generate(*, size: int, seed: int, target: Any) -> None:
    """Write a people file of a made-up organisation of N people."""
    target.write(generate_organisation(size, seed=seed).csv().encode())


def _show(shell: Shell, report: ImportReport, *, dry_run: bool, whole: bool) -> None:
    if shell.out.as_json:
        shell.out.json(_fields(report, dry_run=dry_run))
        return
    show_problems(shell, _("Problems"), report.problems)
    show_problems(shell, _("Worth a look"), report.warnings)
    shell.out.fields(
        {
            _("rows"): report.rows,
            _("new"): report.created,
            _("changed"): report.updated,
            _("unchanged"): report.unchanged,
            _("with another manager"): report.moved,
            _("refused"): report.refused,
            _("people now"): report.headcount.people,
            _("managers now"): report.headcount.managers,
        }
    )
    if dry_run:
        shell.out.note(_("This was a rehearsal: nothing was imported."))
    elif whole:
        shell.out.note(_("Nothing was imported: correct the file, then import it again."))
    elif not report.applied:
        shell.out.note(
            _("Nothing was imported: correct the rows, or import the good ones with --partial.")
        )


def _fields(report: ImportReport, *, dry_run: bool) -> dict[str, object]:
    return {
        "applied": report.applied and not dry_run,
        "dry_run": dry_run,
        "rows": report.rows,
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "moved": report.moved,
        "refused": report.refused,
        "people": report.headcount.people,
        "managers": report.headcount.managers,
        "encoding": report.encoding,
        "delimiter": report.delimiter,
        "problems": [problem_fields(problem) for problem in report.problems],
        "warnings": [problem_fields(problem) for problem in report.warnings],
    }
