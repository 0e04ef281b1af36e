"""Checks of the queues: what is held back, and whether somebody runs what is due."""

from shlex import quote
from typing import Any, Final

from relevo.api import perform
from relevo.cli.doctor.finding import Check, Finding, Patient, fail, ok, warn
from relevo.cli.language import gettext as _
from relevo.cli.scopes import as_worker, read_slugs, say_thing, shown_name
from relevo.cli.waiting import Waiting, list_resting, list_waiting, say_pause
from relevo.db.dsn import WORKER_ROLE
from relevo.engine.jobs import inspect
from relevo.engine.limits import list_limits
from relevo.engine.pauses import list_pauses
from relevo.model.limit import Measure

LONG: Final = 60.0
"""After so many seconds somebody should have begun a due job."""


def _pauses(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        pauses = perform(connection, list_pauses())
        slugs = read_slugs(connection, [pause.scope for pause in pauses])
    named = [(pause, shown_name(pause.scope, pause.name, slugs)) for pause in pauses]
    figures = {
        "pauses": [
            {
                "scope": pause.scope,
                "name": name,
                "paused_until": pause.paused_until,
                "reason": pause.reason,
            }
            for pause, name in named
        ]
    }
    if not pauses:
        return ok(_("nothing is paused"), figures)
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
    return warn(_("paused: %(names)s") % {"names": listed}, fix, figures)


def _limits(patient: Patient) -> Finding:
    with as_worker(patient.database) as connection:
        shut = [limit for limit in perform(connection, list_limits()) if limit.most == 0]
        slugs = read_slugs(connection, [limit.scope for limit in shut])
    named = [(limit, shown_name(limit.scope, limit.name, slugs)) for limit in shut]
    figures = {
        "limits": [
            {"scope": limit.scope, "name": name, "measure": limit.measure} for limit, name in named
        ]
    }
    if not shut:
        return ok(_("no limit is 0"), figures)
    listed = ", ".join(say_thing(limit.scope, name) for limit, name in named)
    removing = ", ".join(
        f"`relevo limits remove {limit.scope.value} {quote(name)}"
        f"{' --starts' if limit.measure is Measure.STARTS else ''}`"
        for limit, name in named
    )
    return warn(
        _("nothing starts where the limit is 0: %(names)s") % {"names": listed},
        _("set a larger one, or remove it: %(commands)s") % {"commands": removing},
        figures,
    )


def _due_jobs(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE) as connection:
        waiting = perform(connection, list_waiting())
        pauses = perform(connection, list_resting())
        workers = perform(connection, inspect.list_workers())
    live = [worker for worker in workers if worker.is_live and not worker.stopping]
    unserved = [
        _said(each, is_visited=any(each.queue in one.queues for one in live))
        for each in waiting
        if each.queue not in pauses
        and not any(each.queue in one.queues and each.kind in one.kinds for one in live)
    ]
    unserved = [each for each in unserved if each["due"]]
    figures = {"jobs": unserved}
    if not unserved:
        return ok(_("somebody runs every job that is due"), figures)
    listed = ", ".join(f"{each['kind']} ({each['queue']}) {each['due']}" for each in unserved)
    longest = max(each["seconds"] for each in unserved)
    text = _("due jobs that no live worker runs: %(jobs)s; the first has waited %(seconds)d s") % {
        "jobs": listed,
        "seconds": longest,
    }
    fix = _("start `relevo worker` for these queues, with the application that has these kinds")
    return (fail if longest > LONG else warn)(text, fix, figures)


def _said(waiting: Waiting, *, is_visited: bool) -> dict[str, Any]:
    """Answer how many jobs of a kind that nobody serves are due, and for how long.

    Args:
        waiting: The jobs.
        is_visited: Whether workers serve the queue for other kinds: they put these jobs off
            again and again, so that what is due soon is due, and their date says nothing.
    """
    return {
        "kind": waiting.kind,
        "queue": waiting.queue,
        "due": waiting.due + (waiting.soon if is_visited else 0),
        "seconds": round(max(waiting.seconds, waiting.age if is_visited else 0.0), 3),
    }


CHECKS: Final = (
    Check("pauses", "paused queues", _pauses),
    Check("limits", "limits", _limits),
    Check("due_jobs", "due jobs", _due_jobs),
)
