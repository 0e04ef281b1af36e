"""Finished jobs whose retention is over, and an archive that is on."""

from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.archive import Setting, switch_archive

OVERDUE = """
INSERT INTO relevo.jobs
    (tenant_id, queue, kind, live, state, outcome, attempt, finished_at, prune_at, payload)
SELECT %(tenant)s, 'default', 'test.work', false, 'completed', 'completed', 1,
       coalesce(%(at)s, now() - n * interval '1 second'), now() - n * interval '1 second',
       jsonb_build_object('n', n)
FROM generate_series(1, %(count)s) AS n
"""


def archive_on(connection: psycopg.Connection, months: int | None = None) -> None:
    """Switch the archive on; it has this month and the next."""
    run(connection, switch_archive(Setting(archiving=True, months=months)))


def overdue_jobs(
    connection: psycopg.Connection,
    count: int,
    *,
    tenant_id: UUID = DEFAULT_TENANT,
    at: datetime | str | None = None,
) -> None:
    """Completed jobs that should have gone a moment ago, the first of them last."""
    connection.execute(OVERDUE, {"tenant": tenant_id, "count": count, "at": at})


def archived(connection: psycopg.Connection) -> list[dict[str, Any]]:
    """Every row of the archive, by id."""
    with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
        return cursor.execute("SELECT * FROM relevo.archive ORDER BY id").fetchall()


def months(connection: psycopg.Connection) -> list[str]:
    """The names of the archive's tables."""
    found = connection.execute("SELECT name FROM relevo.archive_months() ORDER BY name")
    return [row[0] for row in found.fetchall()]
