"""How a demonstration ends: its figures, and how to look further."""

import shlex
from typing import Final

from relevo.cli import Shell
from relevo.cli import gettext as _
from relevo_apps.evaluations.demo.figures import Figures
from relevo_apps.evaluations.demo.place import Place, called

_FAILED_SHOWN: Final = 3


def show_end(shell: Shell, place: Place, figures: Figures, cycle: str, seconds: float) -> None:
    """Print the figures, as one document for programs or as lines for people.

    Args:
        shell: The run.
        place: Where it took place.
        figures: What it ended with.
        cycle: The name of its cycle.
        seconds: How long everything took.
    """
    kept = place.database.shown_dsn if place.is_kept else None
    if shell.out.as_json:
        shell.out.json(
            {
                "cycle": cycle,
                **figures.fields(),
                "seconds": round(seconds, 2),
                "dsn": kept,
                "folder": place.folder if kept else None,
            }
        )
    else:
        _show_figures(shell, figures, seconds)
    if kept:
        _show_ways(shell, place, kept, cycle)
    elif not shell.out.as_json:
        shell.out.note(_("Nothing is left of it. To look further, run it again with --keep."))


def _show_figures(shell: Shell, figures: Figures, seconds: float) -> None:
    sent, mail = figures.status.notifications, figures.mail
    shell.out.line()
    shell.out.fields(
        {
            _("people"): figures.headcount.people,
            _("managers"): figures.headcount.managers,
            _("evaluations active"): figures.activated.done.evaluations,
            _("notifications"): sent.total,
            _("delivered"): sent.delivered,
            _("not delivered"): sent.failed,
            _("needed a retry"): sent.retried,
            _("still to go"): sent.pending,
            _("mails the server took"): mail.accepted,
            _("of them repeated"): mail.accepted - mail.distinct,
            _("refused for now"): mail.refused_for_now,
            _("refused for good"): mail.refused_for_good,
            _("seconds"): f"{seconds:.1f}",
        }
    )
    for each in figures.status.troubled[:_FAILED_SHOWN]:
        shell.out.line(f"  {each.full_name}: {each.last_error}")
    shell.out.line()
    if figures.adds_up:
        shell.out.line(
            _("It adds up: %(total)d = %(delivered)d delivered + %(failed)d failed.")
            % {"total": sent.total, "delivered": sent.delivered, "failed": sent.failed}
        )
    else:
        broken = ", ".join(name for name, holds in figures.checks().items() if not holds)
        shell.out.line(_("It does NOT add up: %(checks)s") % {"checks": broken})


def _show_ways(shell: Shell, place: Place, dsn: str, cycle: str) -> None:
    say, quoted = shell.out.note, shlex.quote(dsn)
    say(_("The database is kept: %(dsn)s") % {"dsn": dsn})
    if dsn != place.database.dsn:
        say(_("Its password is not shown; give it in PGPASSWORD or a password file."))
    say(_("Look further:"))
    say(f"  RELEVO_DSN={quoted} {called()} cycle status {shlex.quote(cycle)} --people")
    say(f"  RELEVO_DSN={quoted} {called()} jobs list")
    say(f"  psql {quoted} -f checks/demo.sql")
    say(_("The worker's log: %(file)s") % {"file": place.worker_log})
    say(_("Remove it with: %(command)s") % {"command": place.drop})
