"""What people see of jobs, and what an operator may do to one."""

import psycopg
import pytest

from factories import (
    QUEUE,
    a_job,
    a_tenant,
    a_worker,
    claim_some,
    history,
    job_row,
    settle_some,
)
from relevo import DEFAULT_TENANT
from relevo.db.drivers import NotInTransaction, run
from relevo.engine.jobs.again import requeue
from relevo.engine.jobs.errors import JobHeld, JobNotFound, KeyHeld
from relevo.engine.jobs.inspect import count, list_page, list_workers, show
from relevo.model.job import JobState
from relevo.model.settlement import Action


def test_pages_go_from_new_to_old_and_meet_every_job_once(connection: psycopg.Connection) -> None:
    made = [a_job(connection) for _ in range(7)]

    seen, before, pages = [], None, 0
    while True:
        page = run(connection, list_page(DEFAULT_TENANT, before=before, limit=3))
        seen += [job.id for job in page.jobs]
        pages += 1
        if page.before is None:
            break
        before = page.before

    assert seen == sorted(made, reverse=True)
    assert pages == 3


def test_a_page_that_is_just_full_is_the_last_one(connection: psycopg.Connection) -> None:
    for _ in range(3):
        a_job(connection)

    assert run(connection, list_page(DEFAULT_TENANT, limit=3)).before is None


def test_new_jobs_do_not_shift_the_pages(connection: psycopg.Connection) -> None:
    made = [a_job(connection) for _ in range(4)]
    first = run(connection, list_page(DEFAULT_TENANT, limit=2))
    a_job(connection)

    second = run(connection, list_page(DEFAULT_TENANT, limit=2, before=first.before))

    assert [job.id for job in second.jobs] == [made[1], made[0]]


def test_filters_narrow_a_page(connection: psycopg.Connection) -> None:
    plain = a_job(connection)
    other = a_job(connection, kind="other.kind", queue="another", aggregate_id="cycle-1")
    failed = a_job(connection, state="failed")
    retrying = a_job(connection, attempt=2)
    later = a_job(connection, available_at="2100-01-01")

    def ids(**filters: object) -> list[int]:
        page = run(connection, list_page(DEFAULT_TENANT, **filters))
        return [job.id for job in page.jobs]

    assert ids(queue="another") == ids(kind="other.kind") == ids(aggregate_id="cycle-1") == [other]
    assert ids(state=JobState.FAILED) == [failed]
    assert ids(retrying=True) == [retrying]
    assert ids(state=JobState.AVAILABLE, retrying=False, due=True) == [other, plain]
    assert ids(due=False) == [later]


def test_the_jobs_of_another_tenant_are_not_there(connection: psycopg.Connection) -> None:
    tenant = a_tenant(connection)
    theirs = a_job(connection, tenant_id=tenant)

    assert run(connection, list_page(DEFAULT_TENANT)).jobs == []
    with pytest.raises(JobNotFound):
        run(connection, show(DEFAULT_TENANT, theirs))
    with pytest.raises(JobNotFound):
        run(connection, requeue(DEFAULT_TENANT, theirs))
    assert run(connection, count(DEFAULT_TENANT, None)) == {}


def test_a_job_is_shown_with_its_history(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, payload={"a": [1]}, key="k", actor="ada")
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED, error="e")

    job, attempts = run(connection, show(DEFAULT_TENANT, job_id))

    assert (job.id, job.state, job.payload, job.key, job.actor, job.last_error) == (
        job_id,
        JobState.AVAILABLE,
        {"a": [1]},
        "k",
        "ada",
        "e",
    )
    assert [(a.attempt, a.outcome, a.error) for a in attempts] == [(1, "retried", "e")]


@pytest.mark.parametrize("depth", [500, 5000])
def test_a_payload_nested_deeply_by_sql_does_not_hide_the_page(
    connection: psycopg.Connection, depth: int
) -> None:
    payload = '{"a":' * depth + "1" + "}" * depth
    job_id = a_job(connection, payload=payload)

    page = run(connection, list_page(DEFAULT_TENANT))

    assert [job.id for job in page.jobs] == [job_id]


def test_a_number_longer_than_python_reads_does_not_hide_the_page(
    connection: psycopg.Connection,
) -> None:
    a_job(connection, payload='{"n": ' + "9" * 5000 + "}")

    (job,) = run(connection, list_page(DEFAULT_TENANT)).jobs

    assert len(job.payload) > 5000


def test_jobs_are_counted_by_queue_and_standing(connection: psycopg.Connection) -> None:
    a_job(connection)
    a_job(connection, attempt=1)
    a_job(connection, state="failed", queue="another", aggregate_id="x")

    assert run(connection, count(DEFAULT_TENANT, None)) == {
        (QUEUE, "available"): 1,
        (QUEUE, "retrying"): 1,
        ("another", "failed"): 1,
    }
    assert run(connection, count(DEFAULT_TENANT, "x")) == {("another", "failed"): 1}


def test_workers_are_listed_with_whether_they_live(connection: psycopg.Connection) -> None:
    live, silent = a_worker(connection), a_worker(connection, lease=-1)

    found = {worker.id: worker.is_live for worker in run(connection, list_workers())}

    assert found == {live: True, silent: False}


# --- requeue


def test_a_failed_job_starts_again_with_all_its_attempts_and_its_history_kept(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=1)
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED, error="first")

    run(connection, requeue(DEFAULT_TENANT, job_id, "ada"))

    row = job_row(connection, job_id)
    assert (row["state"], row["outcome"], row["live"]) == ("available", None, True)
    assert (row["attempt"], row["excused"], row["finished_at"]) == (1, 1, None)
    assert (row["requeued_by"], row["requeued_at"] is not None) == ("ada", True)
    (again,) = claim_some(connection, worker)
    assert (again.attempt, again.failures) == (2, 1)
    settle_some(connection, worker, [again], Action.RETRIED, error="second")
    assert [(a["attempt"], a["outcome"], a["error"]) for a in history(connection, job_id)] == [
        (1, "failed", "first"),
        (2, "failed", "second"),
    ]


def test_a_completed_jobs_success_is_kept_in_the_history(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    settle_some(connection, worker, claim_some(connection, worker), result='"ok"')
    finished_at = job_row(connection, job_id)["finished_at"]

    run(connection, requeue(DEFAULT_TENANT, job_id))

    (attempt,) = history(connection, job_id)
    assert (attempt["outcome"], attempt["finished_at"]) == ("completed", finished_at)
    assert job_row(connection, job_id)["result"] is None


def test_losses_are_forgotten_by_a_requeue(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, state="failed", attempt=6, losses=6)

    run(connection, requeue(DEFAULT_TENANT, job_id))

    assert job_row(connection, job_id)["losses"] == 0


def test_a_requeue_takes_back_the_wish_to_cancel(connection: psycopg.Connection) -> None:
    """Red when the wish stays on the row: the next retry would end as cancelled."""
    job_id = a_job(connection, state="cancelled", cancel_requested_at="now")

    run(connection, requeue(DEFAULT_TENANT, job_id))
    worker = a_worker(connection)
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED)

    assert job_row(connection, job_id)["state"] == "available"


def test_a_waiting_job_is_only_made_due(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, attempt=2, available_at="9000-01-01")

    run(connection, requeue(DEFAULT_TENANT, job_id))

    (job,) = claim_some(connection, worker)
    assert (job.id, job.attempt, job.failures) == (job_id, 3, 3)


def test_a_running_job_is_not_requeued(connection: psycopg.Connection) -> None:
    job_id = a_job(connection, state="running", attempt=2)

    with pytest.raises(JobHeld, match="start 2"):
        run(connection, requeue(DEFAULT_TENANT, job_id))


def test_a_finished_job_whose_live_key_another_job_holds_is_not_requeued(
    connection: psycopg.Connection,
) -> None:
    finished = a_job(connection, state="failed", live_key="k")
    a_job(connection, live_key="k")

    with pytest.raises(KeyHeld):
        run(connection, requeue(DEFAULT_TENANT, finished))


def test_a_finished_job_keeps_its_own_key(connection: psycopg.Connection) -> None:
    finished = a_job(connection, state="failed", key="k")

    run(connection, requeue(DEFAULT_TENANT, finished))

    assert job_row(connection, finished)["key"] == "k"


def test_a_job_that_does_not_exist_is_not_requeued(connection: psycopg.Connection) -> None:
    with pytest.raises(JobNotFound, match="job 4711 does not exist"):
        run(connection, requeue(DEFAULT_TENANT, 4711))


def test_a_requeue_outside_a_transaction_is_refused(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        job_id = a_job(connection, state="failed")

        with pytest.raises(NotInTransaction):
            run(connection, requeue(DEFAULT_TENANT, job_id))


def test_a_requeue_that_is_rolled_back_changes_nothing(database: str) -> None:
    with psycopg.connect(database) as connection:
        job_id = a_job(connection, state="failed")
        connection.commit()
        before = job_row(connection, job_id)
        run(connection, requeue(DEFAULT_TENANT, job_id))

        connection.rollback()

        assert job_row(connection, job_id) == before
        assert history(connection, job_id) == []
