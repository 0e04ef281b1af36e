"""Checks of the queues: which rest, and whether somebody runs what is due."""

from typing import Final

from relevo.api import perform
from relevo.cli.doctor.finding import Check, Finding, Patient, fail, ok, warn
from relevo.cli.language import gettext as _
from relevo.cli.scopes import read_slugs, say_thing, shown_name
from relevo.cli.waiting import list_pauses, list_waiting, say_pause
from relevo.db.dsn import WORKER_ROLE
from relevo.engine.jobs import inspect
from relevo.engine.pauses import list_pauses as pauses_of_all

LONG: Final = 60.0
"""After so many seconds somebody should have begun a due job."""


def _pauses(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        pauses = perform(connection, pauses_of_all())
        slugs = read_slugs(connection, [pause.scope for pause in pauses])
    if not pauses:
        return ok(_("nothing is paused"))
    named = [(pause, shown_name(pause.scope, pause.name, slugs)) for pause in pauses]
    listed = ", ".join(
        f"{say_thing(pause.scope, name)} {say_pause(pause.paused_until, pause.reason)}"
        for pause, name in named
    )
    held = [
        f"`relevo resume {pause.scope.value} {name}`"
        for pause, name in named
        if pause.paused_until is None
    ]
    fix = _("mend the cause; each goes on by itself at its time")
    if held:
        fix = _("mend the cause, then let it go on: %(commands)s") % {"commands": ", ".join(held)}
    return warn(_("paused: %(names)s") % {"names": listed}, fix)


def _due_jobs(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        waiting = perform(connection, list_waiting())
        pauses = perform(connection, list_pauses())
        workers = perform(connection, inspect.list_workers())
    live = [worker for worker in workers if worker.is_live and not worker.stopping]
    unserved = [
        each
        for each in waiting
        if each.due
        and each.queue not in pauses
        and not any(each.queue in one.queues and each.kind in one.kinds for one in live)
    ]
    if not unserved:
        return ok(_("somebody runs every job that is due"))
    listed = ", ".join(f"{each.kind} ({each.queue}) {each.due}" for each in unserved)
    longest = max(each.seconds for each in unserved)
    text = _("due jobs that no live worker runs: %(jobs)s; the first has waited %(seconds)d s") % {
        "jobs": listed,
        "seconds": longest,
    }
    fix = _("start `relevo worker` for these queues, with the application that has these kinds")
    return (fail if longest > LONG else warn)(text, fix)


CHECKS: Final = (
    Check("pauses", "paused queues", _pauses),
    Check("due_jobs", "due jobs", _due_jobs),
)
