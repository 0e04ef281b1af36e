"""Finished jobs go when their kind says so, and not before; live ones never do."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from factories import KIND, a_job, a_kind, a_tenant, a_worker, claim_some, settle_some, value
from relevo import DEFAULT_TENANT, KEEP, KeyMode, Retention
from relevo.db.drivers import run
from relevo.engine.archive import make_months
from relevo.engine.jobs.again import requeue
from relevo.engine.jobs.enqueue import enqueue_job
from relevo.engine.jobs.prune import BATCH, BEGINNING, prune
from relevo.engine.jobs.rescue import rescue_lost_jobs
from relevo.model.job import NewJob
from relevo.model.settlement import Action, Settlement, complete

pytestmark = pytest.mark.core

AGO = "UPDATE relevo.jobs SET prune_at = now() - interval '1 second' WHERE prune_at IS NOT NULL"
DAY = 86_400.0


def ended(connection: psycopg.Connection, action: Action = Action.COMPLETED, **job: Any) -> int:
    """A job that ended, kept for a day."""
    job_id = a_job(connection, **job)
    worker = a_worker(connection)
    settle_some(connection, worker, claim_some(connection, worker), action, keep=DAY)
    return job_id


def gone(connection: psycopg.Connection) -> int:
    """How many jobs one batch takes out."""
    return run(connection, prune()).jobs


def left(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM relevo.jobs"))


@pytest.mark.parametrize("action", [Action.COMPLETED, Action.FAILED, Action.CANCELLED])
def test_a_finished_job_goes_when_its_retention_is_over(
    connection: psycopg.Connection, action: Action
) -> None:
    ended(connection, action)

    assert gone(connection) == 0
    connection.execute(AGO)

    assert gone(connection) == 1
    assert (left(connection), value(connection, "SELECT count(*) FROM relevo.attempts")) == (0, 0)


@pytest.mark.parametrize("archiving", [False, True])
def test_only_jobs_that_ended_long_enough_ago_go(
    connection: psycopg.Connection,
    archiving: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    """F-077. Red when retention counts from the creation, or looks past the state."""
    connection.execute("UPDATE relevo.installation SET archiving = %s", [archiving])
    run(connection, make_months())
    ended(connection)
    young = ended(connection)
    kept = ended(connection, key="for.ever")
    waiting = a_job(connection, available_at="2100-01-01")
    running = a_job(connection, state="running")
    connection.execute("UPDATE relevo.jobs SET created_at = now() - interval '14 days'")
    connection.execute(AGO + " AND id <> %s", [young])
    # Whatever wrote the date there: what is live does not go by it.
    connection.execute(
        "UPDATE relevo.jobs SET prune_at = now() - interval '1 day' WHERE id = ANY (%s)",
        [[waiting, running]],
    )

    assert gone(connection) == 1

    there = {row[0] for row in connection.execute("SELECT id FROM relevo.jobs").fetchall()}
    assert there == {young, kept, waiting, running}


def test_age_alone_removes_nothing(connection: psycopg.Connection) -> None:
    """Red when retention counts from the creation: waiting and running work would go."""
    a_job(connection, state="running")
    a_job(connection, available_at="2100-01-01")
    connection.execute("UPDATE relevo.jobs SET created_at = now() - interval '1 year'")

    assert gone(connection) == 0
    assert left(connection) == 2


def test_a_kind_that_is_kept_stays_for_its_owners_index() -> None:
    kind = a_kind(retention=KEEP)

    assert KEEP.keep(completed=True) is None
    assert KEEP.keep(completed=False) is None
    assert kind.retention is KEEP


def test_a_kind_says_how_long_its_rows_stay() -> None:
    rule = Retention(completed=timedelta(hours=1), failed=timedelta(days=2))

    assert (rule.keep(completed=True), rule.keep(completed=False)) == (3600, 2 * DAY)
    assert (Retention().keep(completed=True), Retention().keep(completed=False)) == (
        7 * DAY,
        30 * DAY,
    )


def test_a_key_for_ever_keeps_its_row_and_a_key_for_a_time_until_then(
    connection: psycopg.Connection,
) -> None:
    """Red when the prune frees a key: the same work could be enqueued a second time."""
    worker = a_worker(connection)
    for key, key_for in (("ever", None), ("long", timedelta(days=9)), ("short", timedelta(1 / 24))):
        job = NewJob(
            DEFAULT_TENANT,
            "bench",
            KIND,
            "{}",
            key=key,
            key_mode=KeyMode.ALWAYS,
            key_for=key_for,
        )
        run(connection, enqueue_job(job))
    claimed = claim_some(connection, worker, queue="bench")
    settle_some(connection, worker, claimed, keep=DAY)

    days = connection.execute(
        "SELECT key, round(extract(epoch FROM prune_at - now()) / 86400)"
        " FROM relevo.jobs ORDER BY key"
    ).fetchall()
    assert days == [("ever", None), ("long", 9), ("short", 1)]


def test_a_lost_job_that_failed_goes_after_a_month_unless_its_kind_is_kept(
    connection: psycopg.Connection,
) -> None:
    for kind in (KIND, "kept"):
        worker = a_worker(connection, lease=-1)
        a_job(connection, kind=kind, max_attempts=1)
        claim_some(connection, worker, kinds=(kind,))
        connection.execute("DELETE FROM relevo.workers WHERE id = %s", [worker])

    run(connection, rescue_lost_jobs(["kept"]))

    rows = connection.execute(
        "SELECT kind, state, round(extract(epoch FROM prune_at - now()) / 86400)"
        " FROM relevo.jobs ORDER BY kind = 'kept'"
    ).fetchall()
    assert rows == [(KIND, "failed", 30), ("kept", "failed", None)]


def test_a_job_that_starts_again_is_not_pruned(connection: psycopg.Connection) -> None:
    job_id = ended(connection, Action.FAILED)
    connection.execute(AGO)
    run(connection, requeue(DEFAULT_TENANT, job_id))

    assert gone(connection) == 0
    assert left(connection) == 1


def test_one_transaction_removes_a_batch_and_the_oldest_first(
    connection: psycopg.Connection,
) -> None:
    tenant = a_tenant(connection)
    for owner in (DEFAULT_TENANT, tenant):
        connection.execute(
            "INSERT INTO relevo.jobs"
            " (tenant_id, queue, kind, live, state, outcome, finished_at, prune_at)"
            " SELECT %s, 'q', 'k', false, 'completed', 'completed', now(),"
            " now() - n * interval '1 s'"
            " FROM generate_series(1, %s) AS n",
            [owner, BATCH],
        )

    batches, after = [], BEGINNING
    for _ in range(3):
        batch = run(connection, prune(after))
        batches.append((batch.jobs, batch.last.tenant_id))
        after = batch.last

    first, second = sorted([DEFAULT_TENANT, tenant])
    assert batches == [(BATCH, first), (BATCH, second), (0, second)]


def test_the_transaction_that_completes_a_job_says_when_it_may_go(
    connection: psycopg.Connection,
) -> None:
    kind = a_kind()
    job = claim_of(connection)

    decided = complete(kind, job)

    assert decided == Settlement(job.tenant_id, job.id, job.attempt, Action.COMPLETED, keep=7 * DAY)


def claim_of(connection: psycopg.Connection) -> Any:
    a_job(connection)
    return claim_some(connection, a_worker(connection))[0]
