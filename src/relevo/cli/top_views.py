"""What `relevo top` shows of one look: sections of rows for people, fields for machines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from relevo.cli.language import gettext as _
from relevo.cli.language import ngettext
from relevo.cli.limits import say_limit
from relevo.cli.scopes import say_scope
from relevo.engine.watch import Look, PauseRow, QueueLook, SessionRow, UseRow

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_SMALL: Final = 10
_LARGE: Final = 100

_UNKNOWN: Final = "?"


@dataclass(frozen=True, slots=True)
class Section:
    """One table of a look.

    Attributes:
        title: What it is about.
        columns: The names of its columns.
        rows: What stands in them, as text.
        weights: How much goes on in each row; a short screen shows the busiest.
        words: How many columns, from the left, are words; numbers stand on the right.
        spare: The columns that a narrow screen leaves out, in this order.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    weights: Sequence[float]
    words: int
    spare: Sequence[int] = ()


def sections(look: Look) -> list[Section]:
    """Answer the tables of a look, those left out in which nothing stands."""
    found = [
        Section(
            title=_("queues"),
            columns=[
                _("queue"),
                _("due now"),
                _("later"),
                _("retrying"),
                _("running"),
                _("oldest due"),
                _("starts/s"),
                _("completed/s"),
                _("failed/s"),
            ],
            rows=[_queue_row(each, look) for each in look.queues],
            weights=[each.due + each.running + each.starts for each in look.queues],
            words=1,
            spare=[3, 6, 2, 7],
        ),
        Section(
            title=_("workers"),
            columns=[
                _("worker"),
                _("queues"),
                _("state"),
                _("slots"),
                _("heard of"),
                _("lease for"),
            ],
            rows=[_worker_row(each, look) for each in look.workers],
            weights=[look.running.get(each.id, 0) for each in look.workers],
            words=3,
            spare=[1, 4],
        ),
        Section(
            title=_("paused"),
            columns=[_("scope"), _("name"), _("until"), _("reason")],
            rows=[_pause_row(each) for each in look.pauses],
            weights=[0.0] * len(look.pauses),
            words=4,
        ),
        Section(
            title=_("limits"),
            columns=[_("scope"), _("name"), _("limit"), _("in use")],
            rows=[_limit_row(each) for each in look.limits or ()],
            weights=[each.used for each in look.limits or ()],
            words=3,
        ),
    ]
    return [each for each in found if each.rows]


def summary(look: Look) -> str:
    """Say a look in one line."""
    workers = sum(each.lease > 0 for each in look.workers)
    due = f"{sum(each.due for each in look.queues)}{_more(look.queues)}"
    running = str(sum(each.running for each in look.queues))
    parts = [
        _("%(due)s due") % {"due": due if look.has_live else _UNKNOWN},
        _("%(running)s running") % {"running": running if look.has_live else _UNKNOWN},
        ngettext("%(count)d worker", "%(count)d workers", workers) % {"count": workers},
        _("rates over %(window)s") % {"window": say_age(look.window)},
    ]
    if not look.is_whole:
        parts.append(_("more than fits in a look is left out"))
    return " · ".join(parts)


def trouble(look: Look) -> str:
    """Say what is missing in a look, and what comes of it; nothing where all is there."""
    if look.has_live and look.has_rates and look.limits is not None:
        return ""
    return _("counting took longer than two seconds; the next look reads less")


def fields(look: Look) -> dict[str, object]:
    """Answer a look for machines."""
    return {
        "looked_at": look.looked_at,
        "is_whole": look.is_whole,
        "window": look.window,
        "rates_are_whole": look.rates_are_whole,
        "queues": [_queue_fields(each, look) for each in look.queues],
        "workers": [
            {
                "id": each.id,
                "name": each.name,
                "queues": each.queues,
                "slots": each.concurrency,
                "running": look.running.get(each.id, 0) if look.has_live else None,
                "silent_for": each.silent,
                "lease_for": each.lease,
                "is_live": each.lease > 0,
                "stopping": each.stopping,
                "started_at": each.started_at,
                "version": each.version,
            }
            for each in look.workers
        ],
        "pauses": [
            {
                "scope": each.scope,
                "name": each.name,
                "paused_until": each.paused_until,
                "reason": each.reason,
            }
            for each in look.pauses
        ],
        "limits": None if look.limits is None else [_limit_fields(each) for each in look.limits],
    }


def say_age(seconds: float) -> str:
    """Say a time span in at most six characters, as precisely as people care."""
    whole = round(seconds)
    if whole < _SMALL:
        return f"{seconds:.1f}s"
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def _queue_fields(queue: QueueLook, look: Look) -> dict[str, object]:
    live = {
        "due": queue.due,
        "later": queue.later,
        "retrying": queue.retrying,
        "running": queue.running,
        "oldest_due_for": queue.oldest,
    }
    rates = {
        "starts_per_second": queue.starts,
        "completions_per_second": queue.completions,
        "failures_per_second": queue.failures,
    }
    return {
        "queue": queue.queue,
        **(live if look.has_live else dict.fromkeys(live)),
        **(rates if look.has_rates else dict.fromkeys(rates)),
        "is_whole": queue.is_whole,
    }


def _limit_fields(limit: UseRow) -> dict[str, object]:
    return {
        "scope": limit.scope,
        "name": limit.name,
        "measure": limit.measure,
        "most": limit.most,
        "seconds": limit.seconds,
        "used": limit.used,
        "is_whole": limit.is_whole,
    }


def _queue_row(queue: QueueLook, look: Look) -> list[str]:
    more = _more([queue])
    live = [
        f"{queue.due}{more}",
        f"{queue.later}{more}",
        f"{queue.retrying}{more}",
        str(queue.running),
        "" if queue.oldest is None else say_age(queue.oldest),
    ]
    rates = [
        _rate(queue.starts, is_whole=look.rates_are_whole and look.has_live),
        _rate(queue.completions, is_whole=look.rates_are_whole),
        _rate(queue.failures, is_whole=look.rates_are_whole),
    ]
    return [
        queue.queue,
        *(live if look.has_live else [_UNKNOWN] * len(live)),
        *(rates if look.has_rates else [_UNKNOWN] * len(rates)),
    ]


def _worker_row(worker: SessionRow, look: Look) -> list[str]:
    state = _("stopping") if worker.stopping else _("working")
    running = str(look.running.get(worker.id, 0)) if look.has_live else _UNKNOWN
    return [
        worker.name,
        ", ".join(worker.queues),
        state if worker.lease > 0 else _("lost"),
        f"{running}/{worker.concurrency}",
        say_age(max(worker.silent, 0.0)),
        say_age(max(worker.lease, 0.0)),
    ]


def _pause_row(pause: PauseRow) -> list[str]:
    until = pause.paused_until
    return [
        say_scope(pause.scope),
        pause.name,
        _("it is resumed") if until is None else f"{until.astimezone():%Y-%m-%d %H:%M:%S}",
        pause.reason,
    ]


def _limit_row(limit: UseRow) -> list[str]:
    more = "" if limit.is_whole else "+"
    return [say_scope(limit.scope), limit.name, say_limit(limit), f"{limit.used}{more}"]


def _rate(rate: float, *, is_whole: bool) -> str:
    more = "" if is_whole else "+"
    return f"{rate:.0f}{more}" if rate >= _LARGE or not rate else f"{rate:.1f}{more}"


def _more(queues: Sequence[QueueLook]) -> str:
    return "" if all(each.is_whole for each in queues) else "+"
