"""`relevo doctor`: run every check, print what was found, end with 5 where one failed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import click
import psycopg

from relevo.cli.database import reason_of
from relevo.cli.declare import Whole, command, option
from relevo.cli.doctor import delivery, queues, schema, server, storage
from relevo.cli.doctor.finding import Check, Finding, Patient, Status, fail, first, ok, warn
from relevo.cli.durations import Duration
from relevo.cli.exits import Exit
from relevo.cli.language import gettext as _
from relevo.cli.language import say_error
from relevo.cli.shell import Shell, app_option, options
from relevo.errors import RelevoError
from relevo.loops.settings import ENGINE_CONNECTIONS

CHECKS: Final[Sequence[Check]] = (
    *server.CHECKS,
    *storage.CHECKS,
    *schema.CHECKS,
    *delivery.CHECKS,
    *queues.CHECKS,
)


@command("doctor")
@option(
    "--connections",
    type=Whole(min=1),
    default=ENGINE_CONNECTIONS + 16,
    show_default=True,
    help="How many connections one worker may open: six of its own, twice eight of handlers.",
)
@option(
    "--transaction-age",
    type=Duration(),
    default="10m",
    show_default=True,
    help="How old a transaction may be that keeps dead rows.",
)
@app_option
@options(listen=True)
@click.pass_context
def doctor(
    ctx: click.Context, named: str | None, connections: int, transaction_age: timedelta
) -> None:
    """Check everything that delivery rests on, and say what to do."""
    shell = ctx.ensure_object(Shell)
    with shell.database() as database, database.connect() as connection:
        patient = Patient(
            database, shell.lines(), connection, connections, transaction_age.total_seconds()
        )
        found = _examine(shell, patient)
    for checkup in shell.checkups():
        if named is not None and not checkup.is_set_up():
            continue
        why, fix = checkup.examine()
        found[checkup.code] = ok(why) if fix is None else warn(why, fix)
    _report(shell, found)
    if any(finding.status is Status.FAIL for finding in found.values()):
        ctx.exit(Exit.CHECK_FAILED)


def _examine(shell: Shell, patient: Patient) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    is_migrated = first(patient.connection, "find_jobs_table")[0]
    with shell.out.progress(_("checking"), len(CHECKS)) as show:
        for done, check in enumerate(CHECKS, 1):
            if is_migrated or not check.needs_schema:
                found[check.code] = _examine_one(check, patient)
            show(done)
    return found


def _examine_one(check: Check, patient: Patient) -> Finding:
    """A check that cannot be made has failed, and the others go on."""
    fix = _("see that this login may look at it, then run `relevo doctor` again")
    try:
        return check.examine(patient)
    except RelevoError as error:
        return fail(say_error(error), fix)
    except psycopg.Error as error:
        return fail(reason_of(error), fix)


def _report(shell: Shell, found: dict[str, Finding]) -> None:
    counts = dict.fromkeys(Status, 0)
    for finding in found.values():
        counts[finding.status] += 1
    if shell.out.as_json:
        shell.out.json(
            {
                "checks": [
                    {
                        "check": code,
                        "status": each.status,
                        "why": each.why,
                        "fix": each.fix,
                        "figures": each.figures,
                    }
                    for code, each in found.items()
                ],
                "ok": counts[Status.OK],
                "warn": counts[Status.WARN],
                "fail": counts[Status.FAIL],
            }
        )
        return
    titles = {check.code: check.title for check in CHECKS}
    titles |= {checkup.code: checkup.title for checkup in shell.checkups()}
    words = {Status.OK: _("ok"), Status.WARN: _("warning"), Status.FAIL: _("failed")}
    rows = [
        (words[each.status], _(titles[code]), f"{each.why}; {each.fix}" if each.fix else each.why)
        for code, each in found.items()
    ]
    shell.out.table([_("result"), _("check"), _("what was found, and what to do")], rows)
    shell.out.note(
        _("ok: %(ok)d, warnings: %(warn)d, failed: %(fail)d")
        % {status.value: count for status, count in counts.items()}
    )
