"""What we say about relevo.archive, whose rows only come and then go by whole months.

Jobs get there by `store.jobs.prune`, in the statement that takes them out of relevo.jobs.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import Attempt, Job
from relevo.store.jobs.prune import Place
from relevo.store.jobs.read import read_job

STATEMENTS: Final = load_statements("relevo.store", "archive.sql")


@dataclass(frozen=True, slots=True)
class Setting:
    """Whether the archive is on.

    Attributes:
        archiving: Whether finished jobs go there when their retention is over.
        months: For how many months it keeps them; None is for ever.
    """

    archiving: bool
    months: int | None


@dataclass(frozen=True, slots=True)
class Month:
    """One month of the archive.

    Attributes:
        starts_at: Its beginning, in UTC.
        jobs: How many jobs ended in it and are here; estimated.
        bytes: What it takes on the disk.
        gone_at: When it goes; None while it is kept for ever.
        is_over: Whether that time has come.
    """

    starts_at: datetime
    jobs: int
    bytes: int
    gone_at: datetime | None
    is_over: bool


def read_archive() -> Operation[Setting]:
    """Answer whether the archive is on."""
    rows = yield Call(STATEMENTS["read_archive"])
    return Setting(*rows[0])


def switch_archive(setting: Setting) -> Operation[Setting]:
    """Switch the archive on or off, as the owner of the schema."""
    params = {"archiving": setting.archiving, "months": setting.months}
    rows = yield Call(STATEMENTS["switch_archive"], params)
    return Setting(*rows[0])


def find_missing_months(limit: int, after: Place) -> Operation[list[datetime]]:
    """Answer the months that the next `limit` jobs to go need and the archive lacks."""
    params = {"limit": limit, "after_tenant": after.tenant_id, "after": after.prune_at}
    rows = yield Call(STATEMENTS["find_missing_months"], params)
    return sorted({month for (month,) in rows})


def make_month(month: datetime) -> Operation[bool]:
    """Make the table of one month; False where it is there already, or has to wait."""
    rows = yield Call(STATEMENTS["make_month"], {"month": month})
    return bool(rows[0][0])


def drop_month() -> Operation[bool]:
    """Drop the oldest month whose time is over; False where none is, or it has to wait."""
    rows = yield Call(STATEMENTS["drop_month"])
    return bool(rows and rows[0][0])


def list_months(months: int | None) -> Operation[list[Month]]:
    """Answer every month, oldest first, and when it goes if so many are kept."""
    rows = yield Call(STATEMENTS["list_months"], {"months": months})
    return [Month(*row) for row in rows]


def show_job(tenant_id: UUID, job_id: int) -> Operation[tuple[Job, datetime] | None]:
    """Answer an archived job and when it was archived, or None."""
    rows = yield Call(STATEMENTS["show_archived_job"], {"tenant_id": tenant_id, "id": job_id})
    if not rows:
        return None
    *job, archived_at = rows[0]
    return read_job(tuple(job)), archived_at


def list_attempts(job: Job) -> Operation[list[Attempt]]:
    """Answer the starts of an archived job that did not complete it, oldest first."""
    params = {"tenant_id": job.tenant_id, "id": job.id, "finished_at": job.finished_at}
    rows = yield Call(STATEMENTS["list_archived_attempts"], params)
    return [Attempt(*row) for row in rows]
