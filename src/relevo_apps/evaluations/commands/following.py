"""Print how far cycles are: figures that add up, and whoever was not written to."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from relevo import Operation
from relevo.cli import Shell, ngettext
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.commands.texts import cycle_fields, head, say_pause
from relevo_apps.evaluations.model.listing import CycleLine, Pause
from relevo_apps.evaluations.model.reports import CycleStatus, Notification

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """What `cycle status` shows.

    Attributes:
        status: The figures.
        pause: Why no mail goes out at this moment; None when it does.
        people: Everybody's notification; None when nobody asked for it.
    """

    status: CycleStatus
    pause: Pause | None
    people: tuple[Notification, ...] | None


def everybody(tenant_id: UUID, cycle_id: UUID) -> Operation[tuple[Notification, ...]]:
    """Read the notifications of a cycle, all pages of them."""
    found: list[Notification] = []
    after: tuple[str, int] | None = None
    while True:
        page = yield from service.list_notifications(tenant_id, cycle_id, limit=_PAGE, after=after)
        found.extend(page)
        if len(page) < _PAGE:
            return tuple(found)
        after = (page[-1].sort_key, page[-1].job_id)


def show_status(shell: Shell, seen: Seen) -> None:
    """Print how far a cycle is."""
    status, sent = seen.status, seen.status.notifications
    if shell.out.as_json:
        shell.out.json(status_fields(seen))
        return
    if seen.people is not None:
        _show_notifications(shell, _("Everybody"), seen.people)
    else:
        _show_notifications(shell, _("Not delivered, or not yet"), status.troubled)
    states = (f"{_(state.value)} {count}" for state, count in status.evaluations.items() if count)
    shell.out.fields(
        {
            **head(status.cycle),
            _("participants"): status.participants,
            _("evaluations"): f"{sum(status.evaluations.values())} ({', '.join(states)})",
            _("notifications"): sent.total,
            _("delivered"): sent.delivered,
            _("not delivered"): sent.failed,
            _("recalled"): sent.cancelled or None,
            _("still to go"): sent.pending,
            _("needed a retry"): sent.retried,
        }
    )
    if seen.pause is not None and sent.pending:
        shell.out.note(
            _("No mail goes out until %(until)s: %(reason)s")
            % {
                "until": f"{seen.pause.until.astimezone():%H:%M:%S %Z}",
                "reason": say_pause(seen.pause),
            }
        )


def show_list(shell: Shell, lines: Sequence[CycleLine]) -> None:
    """Print the cycles of a tenant."""
    if shell.out.as_json:
        shell.out.json(
            {
                "cycles": [
                    {
                        **cycle_fields(line.cycle),
                        "participants": line.participants,
                        "evaluations": line.evaluations,
                    }
                    for line in lines
                ]
            }
        )
        return
    columns = (
        _("cycle"),
        _("state"),
        _("participants"),
        _("evaluations"),
        _("due"),
        _("activated"),
    )
    rows = [
        (
            line.cycle.name,
            _(line.cycle.state.value),
            line.participants,
            line.evaluations,
            line.cycle.due_on,
            line.cycle.activated_at,
        )
        for line in lines
    ]
    shell.out.table(columns, rows)
    shell.out.note(
        ngettext("%(count)d cycle", "%(count)d cycles", len(rows)) % {"count": len(rows)}
    )


def status_fields(seen: Seen) -> dict[str, object]:
    """Answer how far a cycle is, for programs."""
    status, sent = seen.status, seen.status.notifications
    people = status.troubled if seen.people is None else seen.people
    return {
        "cycle": cycle_fields(status.cycle),
        "participants": status.participants,
        "evaluations": {
            "total": sum(status.evaluations.values()),
            **{state.value: count for state, count in status.evaluations.items()},
        },
        "notifications": {
            "total": sent.total,
            "delivered": sent.delivered,
            "failed": sent.failed,
            "cancelled": sent.cancelled,
            "pending": sent.pending,
            "retried": sent.retried,
        },
        "mail_paused": None
        if seen.pause is None
        else {"until": seen.pause.until, "reason": seen.pause.reason},
        "troubled" if seen.people is None else "people": [
            {
                "person": each.external_id,
                "name": each.full_name,
                "email": each.email,
                "job": each.job_id,
                "state": each.state,
                "starts": each.starts,
                "due_at": each.available_at if each.finished_at is None else None,
                "finished_at": each.finished_at,
                "last_error": each.last_error,
            }
            for each in people
        ],
    }


def _show_notifications(shell: Shell, title: str, people: Sequence[Notification]) -> None:
    if not people:
        return
    words = {
        "available": _("waiting"),
        "running": _("being sent"),
        "completed": _("delivered"),
        "failed": _("not delivered"),
        "cancelled": _("recalled"),
    }
    shell.out.line(title)
    columns = (_("id"), _("name"), _("e-mail"), _("state"), _("starts"), _("when"), _("last error"))
    rows = [
        (
            each.external_id,
            each.full_name,
            each.email,
            words[each.state],
            each.starts,
            each.finished_at or each.available_at,
            each.last_error,
        )
        for each in people
    ]
    shell.out.table(columns, rows)
    shell.out.line()
