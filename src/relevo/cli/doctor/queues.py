"""Checks of the queues: which rest, and whether somebody runs what is due."""

from typing import Final

from relevo.api import perform
from relevo.cli.doctor.finding import Check, Finding, Patient, fail, ok, warn
from relevo.cli.language import gettext as _
from relevo.cli.waiting import list_pauses, list_waiting
from relevo.db.dsn import WORKER_ROLE
from relevo.engine.jobs import inspect

LONG: Final = 60.0
"""After so many seconds somebody should have begun a due job."""


def _pauses(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        pauses = perform(connection, list_pauses())
    if pauses:
        listed = ", ".join(f"{queue} {pause.said}" for queue, pause in sorted(pauses.items()))
        return warn(
            _("queues that rest: %(queues)s") % {"queues": listed},
            _("mend the cause; each goes on by itself at its time"),
        )
    return ok(_("no queue is paused"))


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
