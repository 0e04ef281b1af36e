"""`relevo archive`: keep finished jobs, by the month in which they ended."""

import re
from datetime import UTC
from typing import Any, Final

import click

from relevo.api import perform
from relevo.cli.declare import group, option
from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.cli.shell import Shell, options, pass_shell
from relevo.db.dsn import WEB_ROLE
from relevo.engine import archive as engine
from relevo.engine.archive import Month, Setting

_WRITTEN: Final = re.compile(r"(?P<number>\d{1,4})\s*(?P<unit>m|y)")
_MOST: Final = 1200
_FOR_EVER: Final = "ever"


class Keep(click.ParamType[str | int]):
    """An option's value that is a number of months, or for ever."""

    name = "months"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | int:
        """Read what was written."""
        said = str(value).strip().lower()
        if said == _FOR_EVER:
            return _FOR_EVER
        if match := _WRITTEN.fullmatch(said):
            months = int(match["number"]) * (12 if match["unit"] == "y" else 1)
            if 1 <= months <= _MOST:
                return months
        return self.fail(
            _("%(value)r is no time to keep; write it like 24M, 2Y or ever") % {"value": value},
            param,
            ctx,
        )


@group("archive")
@options()
def archive() -> None:
    """Keep finished jobs when their retention is over."""


@archive.command("on")
@option(
    "--keep",
    type=Keep(),
    metavar="24M|2Y|ever",
    help="For how long the archive keeps a month; else as before, and at first for ever.",
)
@option("--yes", is_flag=True, help="Drop the months whose time is over by that.")
@options()
@pass_shell
def switch_on(shell: Shell, /, *, keep: str | int | None, yes: bool) -> None:
    """Move finished jobs to the archive from now on; needs the owner of the schema.

    Workers of releases without an archive prune nothing while it is on.
    """
    with shell.database() as database, database.connect() as connection:
        before = perform(connection, engine.read_archive())
        setting = Setting(archiving=True, months=_months(keep, before))
        months = perform(connection, engine.list_months(setting.months))
        over = [month for month in months if month.is_over]
        if over and not yes and setting.months != before.months:
            _refuse(over)
        perform(connection, engine.switch_archive(setting))
        months = perform(connection, engine.list_months(setting.months))
    _report(shell, setting, months)


@archive.command("off")
@options()
@pass_shell
def switch_off(shell: Shell) -> None:
    """Delete finished jobs again; what the archive has stays for its time.

    Needs the owner of the schema.
    """
    with shell.database() as database, database.connect() as connection:
        before = perform(connection, engine.read_archive())
        setting = Setting(archiving=False, months=before.months)
        perform(connection, engine.switch_archive(setting))
        months = perform(connection, engine.list_months(setting.months))
    _report(shell, setting, months)


@archive.command("status")
@options()
@pass_shell
def status(shell: Shell) -> None:
    """Say whether the archive is on, and show its months."""
    with shell.database() as database, database.connect(WEB_ROLE) as connection:
        setting = perform(connection, engine.read_archive())
        months = perform(connection, engine.list_months(setting.months))
    _report(shell, setting, months)


def _months(keep: str | int | None, before: Setting) -> int | None:
    if keep is None:
        return before.months
    return keep if isinstance(keep, int) else None


def _refuse(over: list[Month]) -> None:
    jobs = sum(month.jobs for month in over)
    named = ", ".join(_name(month) for month in over)
    text = ngettext(
        "%(count)d month of the archive would go (%(months)s, about %(jobs)d jobs); add --yes",
        "%(count)d months of the archive would go (%(months)s, about %(jobs)d jobs); add --yes",
        len(over),
    )
    raise click.UsageError(text % {"count": len(over), "months": named, "jobs": jobs})


def _report(shell: Shell, setting: Setting, months: list[Month]) -> None:
    if shell.out.as_json:
        shell.out.json(
            {
                "on": setting.archiving,
                "keep_months": setting.months,
                "months": [
                    {
                        "month": _name(month),
                        "jobs": month.jobs,
                        "bytes": month.bytes,
                        "gone_at": month.gone_at,
                    }
                    for month in months
                ],
            }
        )
        return
    shell.out.line(_said(setting))
    if months:
        shell.out.line()
        columns = [_("month"), _("jobs, about"), _("bytes"), _("goes at")]
        rows = [
            (_name(month), month.jobs, month.bytes, month.gone_at or _("never")) for month in months
        ]
        shell.out.table(columns, rows)


def _said(setting: Setting) -> str:
    if not setting.archiving:
        return _("the archive is off: finished jobs are deleted when their retention is over")
    if setting.months is None:
        return _("the archive is on and keeps finished jobs for ever")
    text = ngettext(
        "the archive is on and keeps finished jobs for %(count)d month",
        "the archive is on and keeps finished jobs for %(count)d months",
        setting.months,
    )
    return text % {"count": setting.months}


def _name(month: Month) -> str:
    return f"{month.starts_at.astimezone(UTC):%Y-%m}"
