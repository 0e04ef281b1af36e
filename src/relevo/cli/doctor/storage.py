"""Checks of what keeps the tables small: autovacuum, who holds it up, and the pruners."""

from dataclasses import asdict, dataclass
from typing import Final

from relevo.api import perform
from relevo.cli.doctor.finding import Check, Finding, Patient, first, ok, read, warn
from relevo.cli.language import gettext as _
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE
from relevo.engine.archive import read_archive
from relevo.engine.jobs.prune import BATCH, count_overdue

DEAD_ROWS: Final = 100_000
DEAD_SHARE: Final = 0.2
NAP: Final = 60
"""Seconds between two looks of autovacuum, as PostgreSQL has it by default."""

HIDDEN_AGE: Final = 1_000_000
"""Transactions since a session whose times this login may not see; then it is told of."""

LATE: Final = 600.0
"""Seconds; a pruner looks every minute."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """One that keeps dead rows.

    Attributes:
        kind: A session, a prepared transaction, a slot or a stale slot.
        name: What it is called.
        pid: Its process, where it has one.
        xmin_age: How many transactions ago the oldest began that it may still look at.
        seconds: Since when; None where nobody says.
    """

    kind: str
    name: str
    pid: int | None
    xmin_age: int
    seconds: float | None

    def is_too_old(self, patience: float) -> bool:
        """Whether it should be told of."""
        if self.seconds is None:
            return self.kind == "stale slot" or self.xmin_age > HIDDEN_AGE
        return self.seconds > patience

    @property
    def said(self) -> tuple[str, str]:
        """Who it is, and what to do about it."""
        values = {"name": self.name, "pid": self.pid or 0, "seconds": self.seconds or 0.0}
        if self.kind == "prepared":
            return (
                _("the prepared transaction '%(name)s' has waited for %(seconds)d s") % values,
                _("end it with COMMIT PREPARED '%(name)s' or ROLLBACK PREPARED '%(name)s'")
                % values,
            )
        if self.kind in {"slot", "stale slot"}:
            return (
                _("the replication slot '%(name)s' holds old rows for a standby") % values,
                _(
                    "let its standby connect and catch up, or remove the slot with "
                    "SELECT pg_drop_replication_slot('%(name)s')"
                )
                % values,
            )
        if self.seconds is None:
            return (
                _("process %(pid)d (%(name)s) holds old rows, and its times are hidden") % values,
                _("grant pg_read_all_stats to this login, and look again"),
            )
        return (
            _("process %(pid)d (%(name)s) has been in its transaction for %(seconds)d s") % values,
            _("end it with SELECT pg_terminate_backend(%(pid)d), or make such transactions shorter")
            % values,
        )


def _autovacuum(patient: Patient) -> Finding:
    is_on, counts, nap = first(patient.connection, "read_autovacuum")
    rows = read(patient.connection, "list_dead_rows")
    live, dead = _rows_of_jobs(patient)
    figures = {
        "live_rows": live,
        "dead_rows": dead,
        "dead_rows_by_table": {name: dead_there for name, _live, dead_there, _out in rows},
    }
    left_out = [f"relevo.{name}" for name, _live, _dead, is_left_out in rows if is_left_out]
    if not is_on:
        return warn(
            _("autovacuum is off, so the jobs table grows without bound"),
            _("set autovacuum = on"),
            figures,
        )
    if not counts:
        return warn(
            _("track_counts is off, so autovacuum does not know of dead rows"),
            _("set track_counts = on"),
            figures,
        )
    if left_out:
        return warn(
            _("autovacuum leaves out %(names)s") % {"names": ", ".join(left_out)},
            _("ALTER TABLE … RESET (autovacuum_enabled) on each"),
            figures,
        )
    if dead > DEAD_ROWS and dead > live * DEAD_SHARE:
        return warn(
            _("%(dead)d dead rows of relevo.jobs wait for autovacuum") % {"dead": dead},
            _("end long transactions, or run VACUUM relevo.jobs"),
            figures,
        )
    if nap > NAP:
        return warn(
            _("autovacuum looks at a database only every %(seconds)d s") % {"seconds": nap},
            _("set autovacuum_naptime = '1min' or less"),
            figures,
        )
    return ok(
        _("autovacuum is on and keeps up: %(dead)d dead rows in relevo.jobs") % {"dead": dead},
        figures,
    )


def _holders(patient: Patient) -> Finding:
    holders = [_Holder(*row) for row in read(patient.connection, "list_holders")]
    _live, dead = _rows_of_jobs(patient)
    values = {"dead": dead, "age": max((holder.xmin_age for holder in holders), default=0)}
    figures = {
        "dead_rows": dead,
        "oldest_xmin_age": values["age"],
        "oldest_seconds": max((holder.seconds or 0.0 for holder in holders), default=0.0),
        "holders": [asdict(holder) for holder in holders[:10]],
    }
    old = [holder for holder in holders if holder.is_too_old(patient.patience)]
    if not old:
        text = _(
            "nobody keeps dead rows for long: %(dead)d in relevo.jobs, "
            "the oldest xmin is %(age)d transactions old"
        )
        return ok(text % values, figures)
    why, fix = old[0].said
    text = _(
        "%(holder)s, so dead rows stay: %(dead)d in relevo.jobs, "
        "the oldest xmin is %(age)d transactions old"
    )
    return warn(text % {"holder": why, **values}, fix, figures)


def _retention(patient: Patient) -> Finding:
    with patient.database.connect(WORKER_ROLE, settings=ENGINE_SETTINGS) as connection:
        archiving = perform(connection, read_archive()).archiving
        overdue = perform(connection, count_overdue(LATE, 10 * BATCH))
    figures = {"overdue": overdue, "archiving": archiving}
    if overdue > BATCH:
        return warn(
            _("%(count)d finished jobs or more should have been pruned ten minutes ago")
            % {"count": overdue},
            _("start a worker of this release; older ones prune nothing while the archive is on")
            if archiving
            else _("see that a worker runs, and what it logs"),
            figures,
        )
    return ok(
        _("finished jobs go to the archive in time")
        if archiving
        else _("finished jobs are deleted in time"),
        figures,
    )


def _rows_of_jobs(patient: Patient) -> tuple[int, int]:
    rows = read(patient.connection, "list_dead_rows")
    return next(((live, dead) for name, live, dead, _out in rows if name == "jobs"), (0, 0))


CHECKS: Final = (
    Check("autovacuum", "autovacuum", _autovacuum),
    Check("dead_rows", "dead rows", _holders),
    Check("retention", "retention", _retention),
)
