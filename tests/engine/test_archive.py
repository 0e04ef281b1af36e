"""Finished jobs move to the archive whole, month by month, and leave it by whole months."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

from archiving import archive_on, archived, months, overdue_jobs
from factories import (
    a_job,
    a_tenant,
    a_worker,
    claim_some,
    history,
    job_row,
    make_due,
    settle_some,
    value,
)
from relevo import DEFAULT_TENANT
from relevo.db.drivers import NotInTransaction, run
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.engine.archive import (
    Setting,
    drop_month,
    list_months,
    make_months,
    read_archive,
    switch_archive,
)
from relevo.engine.jobs.errors import JobNotFound
from relevo.engine.jobs.inspect import find, show
from relevo.engine.jobs.prune import BATCH, BEGINNING, prune
from relevo.model.job import JobState
from relevo.model.settlement import Action
from relevo.store.archive import find_missing_months

pytestmark = pytest.mark.core

NEW_YORK = "SET LOCAL timezone = 'America/New_York'"


def month_of(at: datetime) -> str:
    return f"archive_{at.astimezone(UTC):%Y_%m}"


def next_month(at: datetime) -> datetime:
    return (at.astimezone(UTC).replace(day=1) + timedelta(days=32)).replace(day=1)


def a_failed_job(connection: psycopg.Connection) -> int:
    """A job that failed in its third start, with everything on its row that a row may have."""
    job_id = a_job(
        connection,
        queue="mail",
        kind="mail.letter",
        payload={"to": "Núñez"},
        headers={"traceparent": "00"},
        actor="ana@hr",
        aggregate_id="2026",
        key="letter.7",
        key_expires_at="2026-01-01",
        lane_key="smtp.example",
        max_attempts=3,
    )
    worker = a_worker(connection)
    for action in (Action.RETRIED, Action.SNOOZED, Action.RETRIED, Action.RETRIED):
        jobs = claim_some(connection, worker, queue="mail", kinds=("mail.letter",))
        settle_some(connection, worker, jobs, action, error="boom", trace="Traceback", keep=0.0)
        make_due(connection, job_id)
    connection.execute(
        "UPDATE relevo.jobs SET result = '[1]', prune_at = now() WHERE id = %s", [job_id]
    )
    return job_id


def test_a_job_moves_with_everything_on_its_row_and_its_attempts(
    connection: psycopg.Connection,
) -> None:
    job_id = a_failed_job(connection)
    archive_on(connection)
    before, tried = job_row(connection, job_id), history(connection, job_id)
    assert (before["state"], len(tried)) == ("failed", 4)

    batch = run(connection, prune())

    (row,) = archived(connection)
    attempts = row.pop("attempts")
    assert (batch.jobs, batch.archived) == (1, 1)
    assert {name: row[name] for name in row if name != "archived_at"} == {
        name: before[name] for name in row if name != "archived_at"
    }
    assert [(each["attempt"], each["outcome"], each["error"]) for each in attempts] == [
        (each["attempt"], each["outcome"], each["error"]) for each in tried
    ]
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0
    assert value(connection, "SELECT count(*) FROM relevo.attempts") == 0


def test_only_what_the_engine_alone_needs_is_left_behind(connection: psycopg.Connection) -> None:
    """Red when a column of jobs is added and nobody has decided whether it is archived."""
    columns = {
        table: {row[0] for row in connection.execute(query, [table]).fetchall()}
        for query in ["SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass"]
        for table in ("relevo.jobs", "relevo.archive")
    }

    assert columns["relevo.jobs"] - columns["relevo.archive"] == {
        "cancel_requested_at",
        "key_expires_at",
        "lane",
        "live",
        "live_key",
        "progress",
        "prune_at",
        "run_id",
        "state",
        "step",
        "strand",
        "waiting_key",
        "worker",
    }


def test_where_the_archive_is_off_jobs_are_deleted(connection: psycopg.Connection) -> None:
    overdue_jobs(connection, 3)

    made = run(connection, make_months())
    batch = run(connection, prune())

    assert (made, batch.jobs, batch.archived) == (0, 3, 0)
    assert (archived(connection), months(connection)) == ([], [])


def test_a_batch_needs_a_transaction(database: str) -> None:
    """Mechanism: the policy lets only a transaction prune that says that it knows the archive."""
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(NotInTransaction),
    ):
        run(connection, prune())


@pytest.mark.parametrize("zone", ["SET LOCAL timezone = 'UTC'", NEW_YORK])
def test_each_job_lies_in_the_month_in_utc_in_which_it_ended(
    connection: psycopg.Connection, zone: str
) -> None:
    connection.execute(zone.encode())
    now = value(connection, "SELECT now()")
    ends = [
        datetime(2026, 1, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 2, 1, tzinfo=UTC),
        datetime(2024, 12, 31, 23, tzinfo=UTC),
    ]
    for end in ends:
        overdue_jobs(connection, 1, at=end)

    archive_on(connection)
    run(connection, prune())

    found = connection.execute(
        "SELECT finished_at, tableoid::regclass::text FROM relevo.archive"
    ).fetchall()
    assert dict(found) == {end: f"relevo.{month_of(end)}" for end in ends}
    assert months(connection) == sorted(map(month_of, [*ends, now, next_month(now)]))
    assert run(connection, find_missing_months(BATCH, BEGINNING)) == []


def test_a_job_whose_month_has_no_table_waits_and_holds_up_nobody(
    connection: psycopg.Connection,
) -> None:
    archive_on(connection)
    overdue_jobs(connection, 2, at=datetime(2020, 5, 5, tzinfo=UTC))
    overdue_jobs(connection, 1)

    first = run(connection, prune())
    made = run(connection, make_months())
    second = run(connection, prune())

    assert (first.jobs, made, second.jobs) == (1, 1, 2)
    assert len(archived(connection)) == 3


@pytest.mark.parametrize("end", ["infinity", "-infinity", "1969-12-31", "9999-01-01"])
def test_an_end_that_cannot_be_keeps_its_row_and_no_others(
    connection: psycopg.Connection, end: str
) -> None:
    archive_on(connection)
    overdue_jobs(connection, 1, at=end)
    overdue_jobs(connection, 1)

    assert run(connection, make_months()) == 0
    assert run(connection, prune()).jobs == 1
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 1


def test_a_date_that_python_cannot_read_does_not_stop_the_pruner(
    connection: psycopg.Connection,
) -> None:
    overdue_jobs(connection, 2)
    connection.execute("UPDATE relevo.jobs SET prune_at = '-infinity'")

    assert run(connection, prune()).jobs == 2


def test_what_the_archive_would_drop_at_once_is_deleted(connection: psycopg.Connection) -> None:
    archive_on(connection, months=2)
    now = value(connection, "SELECT now()")
    begin = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    # Two whole months are kept besides the one that runs.
    oldest = ((begin - timedelta(days=1)).replace(day=1) - timedelta(days=1)).replace(day=1)
    overdue_jobs(connection, 1, at=oldest)
    overdue_jobs(connection, 1, at=oldest - timedelta(microseconds=1))

    run(connection, make_months())
    batch = run(connection, prune())

    assert (batch.jobs, batch.archived) == (2, 1)
    assert [row["finished_at"] for row in archived(connection)] == [oldest]
    assert month_of(oldest - timedelta(days=1)) not in months(connection)


def test_months_go_whole_when_their_time_is_over_oldest_first(
    connection: psycopg.Connection,
) -> None:
    archive_on(connection)
    for month in (1, 2, 3):
        overdue_jobs(connection, 2, at=datetime(2020, month, 9, tzinfo=UTC))
    run(connection, make_months())
    run(connection, prune())

    for_ever = run(connection, drop_month())
    run(connection, switch_archive(Setting(archiving=True, months=24)))
    listed = run(connection, list_months(24))
    dropped = [run(connection, drop_month()) for _ in range(4)]

    assert for_ever is False
    assert [month.is_over for month in listed] == [True, True, True, False, False]
    assert listed[0].gone_at == datetime(2022, 2, 1, tzinfo=UTC)
    assert dropped == [True, True, True, False]
    assert archived(connection) == []
    assert len(months(connection)) == 2


def test_switched_off_the_archive_still_lets_its_months_go(connection: psycopg.Connection) -> None:
    archive_on(connection)
    overdue_jobs(connection, 1, at=datetime(2020, 1, 1, tzinfo=UTC))
    run(connection, make_months())
    run(connection, prune())

    off = run(connection, switch_archive(Setting(archiving=False, months=12)))

    assert off == run(connection, read_archive()) == Setting(archiving=False, months=12)
    assert run(connection, drop_month()) is True


def test_a_copy_that_was_put_back_is_archived_once(connection: psycopg.Connection) -> None:
    """Mechanism: ON CONFLICT; red without it, the pruner would fail at the same row for ever."""
    archive_on(connection)
    overdue_jobs(connection, 2)
    run(connection, prune())
    connection.execute(
        "INSERT INTO relevo.jobs (tenant_id, id, kind, live, state, outcome, finished_at, prune_at)"
        " SELECT tenant_id, id, kind, false, outcome, outcome, finished_at, now()"
        " FROM relevo.archive"
    )

    assert run(connection, prune()).jobs == 2
    assert len(archived(connection)) == 2
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0


def test_an_archived_job_is_found_and_reads_as_it_did(connection: psycopg.Connection) -> None:
    job_id = a_failed_job(connection)
    archive_on(connection)
    job, attempts = run(connection, show(DEFAULT_TENANT, job_id))
    there = run(connection, find(DEFAULT_TENANT, job_id))

    run(connection, prune())

    found = run(connection, find(DEFAULT_TENANT, job_id))
    assert (there.job, there.attempts, there.archived_at) == (job, attempts, None)
    assert (found.job, found.attempts) == (job, attempts)
    assert found.job.state is JobState.FAILED
    assert found.archived_at == value(connection, "SELECT now()")
    with pytest.raises(JobNotFound):
        run(connection, show(DEFAULT_TENANT, job_id))


def test_the_archived_job_of_another_tenant_is_not_found(connection: psycopg.Connection) -> None:
    tenant = a_tenant(connection)
    archive_on(connection)
    overdue_jobs(connection, 1, tenant_id=tenant)
    run(connection, prune())
    (row,) = archived(connection)

    assert run(connection, find(tenant, row["id"])).archived_at is not None
    with pytest.raises(JobNotFound):
        run(connection, find(DEFAULT_TENANT, row["id"]))


def test_a_key_of_any_mode_stays_readable(connection: psycopg.Connection) -> None:
    archive_on(connection)
    overdue_jobs(connection, 3)
    for number, column in enumerate(("key", "live_key", "waiting_key"), 1):
        change = sql.SQL("UPDATE relevo.jobs SET {} = 'k' WHERE payload->>'n' = {}")
        connection.execute(change.format(sql.Identifier(column), sql.Literal(str(number))))

    run(connection, prune())

    assert [row["key"] for row in archived(connection)] == ["k", "k", "k"]


def test_what_a_batch_moved_is_undone_by_a_roll_back(database: str) -> None:
    with psycopg.connect(with_session(database, role=WORKER_ROLE, settings=ENGINE_SETTINGS)) as w:
        with psycopg.connect(database) as owner:
            archive_on(owner)
            overdue_jobs(owner, 5)
        assert run(w, prune()).archived == 5

        w.rollback()

        assert len(archived(w)) == 0
        assert value(w, "SELECT count(*) FROM relevo.jobs") == 5
