"""What becomes of a job when its attempt ends, and how a stale worker is kept out."""

import json
import threading
from datetime import timedelta

import psycopg
import pytest

from factories import (
    QUEUE,
    a_job,
    a_worker,
    claim_some,
    history,
    job_row,
    make_due,
    settle_some,
    some_jobs,
    value,
)
from limiting import ENGINES_LEVEL
from relevo.db.drivers import run
from relevo.engine.jobs.settle import complete, settle
from relevo.model.settlement import Action, Settlement
from relevo.store.jobs.settle import STATEMENTS
from workers import query, wait_until

pytestmark = pytest.mark.core

BACK = [Action.RETRIED, Action.SNOOZED, Action.RELEASED]


def test_a_completed_job_keeps_its_result_and_leaves_no_history(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)

    stands = settle_some(connection, worker, claim_some(connection, worker), result='{"n": 1}')

    row = job_row(connection, job_id)
    assert stands == {job_id: "completed"}
    assert (row["state"], row["outcome"], row["live"]) == ("completed", "completed", False)
    assert row["result"] == {"n": 1}
    assert row["worker"] is None
    assert row["finished_at"] is not None
    assert history(connection, job_id) == []


@pytest.mark.parametrize("action", [Action.FAILED, Action.CANCELLED])
def test_a_job_that_ends_without_success_says_why_on_its_row_and_in_its_history(
    connection: psycopg.Connection, action: Action
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, worker)

    settle_some(connection, worker, jobs, action, error="no such address", trace="a longer text")

    row, (attempt,) = job_row(connection, job_id), history(connection, job_id)
    assert row["state"] == row["outcome"] == attempt["outcome"] == action
    assert row["last_error"] == "no such address"
    assert attempt["error"] == "a longer text"
    assert attempt["worker"] == worker
    assert attempt["started_at"] == row["started_at"]
    assert attempt["retry_at"] is None


@pytest.mark.parametrize("action", BACK)
def test_a_job_that_goes_back_waits_as_long_as_it_was_told(
    connection: psycopg.Connection, action: Action
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, worker)

    settle_some(connection, worker, jobs, action, delay=timedelta(hours=1), error="not now")

    row, (attempt,) = job_row(connection, job_id), history(connection, job_id)
    waits = value(connection, "SELECT available_at - clock_timestamp() FROM relevo.jobs")
    assert row["state"] == "available"
    assert timedelta(minutes=59) < waits <= timedelta(hours=1)
    assert attempt["outcome"] == action
    assert attempt["retry_at"] == row["available_at"]


@pytest.mark.parametrize(("action", "excused"), list(zip(BACK, [0, 1, 1], strict=True)))
def test_only_a_retry_spends_an_attempt(
    connection: psycopg.Connection, action: Action, excused: int
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)

    settle_some(connection, worker, claim_some(connection, worker), action)

    row = job_row(connection, job_id)
    assert (row["attempt"], row["excused"]) == (1, excused)


@pytest.mark.parametrize("action", [Action.SNOOZED, Action.RELEASED])
def test_a_start_that_does_not_count_never_ends_a_job(
    connection: psycopg.Connection, action: Action
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=1)

    for _ in range(5):
        make_due(connection, job_id)
        settle_some(connection, worker, claim_some(connection, worker), action)

    row = job_row(connection, job_id)
    assert (row["state"], row["attempt"], row["excused"]) == ("available", 5, 5)


def test_a_retry_after_the_last_attempt_is_a_failure(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=3)

    for start in range(1, 4):
        make_due(connection, job_id)
        jobs = claim_some(connection, worker)
        settle_some(connection, worker, jobs, Action.RETRIED, error=f"error {start}")

    row = job_row(connection, job_id)
    assert (row["state"], row["attempt"], row["last_error"]) == ("failed", 3, "error 3")
    assert [(a["outcome"], a["error"]) for a in history(connection, job_id)] == [
        ("retried", "error 1"),
        ("retried", "error 2"),
        ("failed", "error 3"),
    ]


def test_excused_starts_are_given_back_to_the_attempts(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=2)

    for action in (Action.RETRIED, Action.SNOOZED, Action.RELEASED, Action.RETRIED):
        make_due(connection, job_id)
        settle_some(connection, worker, claim_some(connection, worker), action, error="e")

    row = job_row(connection, job_id)
    assert (row["state"], row["attempt"], row["excused"]) == ("failed", 4, 2)


def test_a_settle_without_a_reason_keeps_the_last_error(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED, error="first")
    make_due(connection, job_id)

    settle_some(connection, worker, claim_some(connection, worker), Action.SNOOZED)

    assert job_row(connection, job_id)["last_error"] == "first"


@pytest.mark.parametrize("action", list(Action))
def test_a_stale_worker_cannot_settle_a_job_that_another_worker_holds(
    connection: psycopg.Connection, action: Action
) -> None:
    """Red without the worker in the fence."""
    stale, fresh = a_worker(connection), a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, stale)
    connection.execute("UPDATE relevo.jobs SET worker = %s", [fresh])
    before = job_row(connection, job_id)

    stands = settle_some(connection, stale, jobs, action, error="stale")

    assert stands == {}
    assert job_row(connection, job_id) == before
    assert history(connection, job_id) == []


@pytest.mark.parametrize("action", list(Action))
def test_an_old_attempt_cannot_settle_a_new_one_of_the_same_worker(
    connection: psycopg.Connection, action: Action
) -> None:
    """Red without the attempt in the fence."""
    worker = a_worker(connection)
    job_id = a_job(connection)
    old = claim_some(connection, worker)
    settle_some(connection, worker, old, Action.RETRIED)
    make_due(connection, job_id)
    claim_some(connection, worker)
    before = job_row(connection, job_id)

    stands = settle_some(connection, worker, old, action, error="stale")

    assert stands == {}
    assert job_row(connection, job_id) == before
    assert len(history(connection, job_id)) == 1


@pytest.mark.parametrize("action", list(Action))
def test_a_job_that_has_ended_cannot_be_settled_again(
    connection: psycopg.Connection, action: Action
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, worker)
    settle_some(connection, worker, jobs)
    before = job_row(connection, job_id)

    assert settle_some(connection, worker, jobs, action, error="again") == {}
    assert job_row(connection, job_id) == before


def test_a_batch_settles_what_is_still_held_and_names_what_was_lost(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 6)
    jobs = claim_some(connection, worker)
    lost = jobs[2], jobs[4]
    for job in lost:
        connection.execute("UPDATE relevo.jobs SET attempt = attempt + 1 WHERE id = %s", [job.id])
    done = {
        job.id: Settlement(job.tenant_id, job.id, job.attempt, action, error="e")
        for job, action in zip(jobs, [Action.COMPLETED, Action.RETRIED] * 3, strict=True)
    }

    stands = run(connection, settle(worker, dict.fromkeys(done, QUEUE), list(done.values())))

    assert {job_id for _, job_id in stands} == {job.id for job in jobs if job not in lost}
    assert sorted(set(stands.values())) == ["available", "completed"]


def test_each_job_of_a_batch_gets_its_own_result_and_error(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 40)
    jobs = claim_some(connection, worker)
    batch = [
        Settlement(job.tenant_id, job.id, job.attempt, Action.COMPLETED, result=f'"{job.id}"')
        if place % 2
        else Settlement(job.tenant_id, job.id, job.attempt, Action.RETRIED, error=str(job.id))
        for place, job in enumerate(jobs)
    ]

    run(connection, settle(worker, dict.fromkeys((job.id for job in jobs), QUEUE), batch))

    wrong = value(
        connection,
        "SELECT count(*) FROM relevo.jobs WHERE id::text IS DISTINCT FROM"
        " coalesce(result #>> '{}', last_error)",
    )
    assert wrong == 0


def test_completing_one_job_says_whether_it_was_still_held(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    (job,) = claim_some(connection, worker)
    done = Settlement(job.tenant_id, job.id, job.attempt, Action.COMPLETED)

    assert run(connection, complete(worker, done))
    assert not run(connection, complete(worker, done))


def test_an_outage_pauses_the_queue_before_the_job_goes_back(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, worker)

    settle_some(
        connection,
        worker,
        jobs,
        Action.RELEASED,
        error="mail server down",
        pause=timedelta(minutes=3),
    )

    name, pause, reason, actor = connection.execute(
        "SELECT name, paused_until - now(), reason, actor FROM relevo.pauses"
    ).fetchone()
    row = job_row(connection, job_id)
    assert (name, reason, actor) == (QUEUE, "mail server down", "relevo")
    assert timedelta(minutes=2) < pause < timedelta(minutes=4)
    assert (row["state"], row["excused"], row["last_error"]) == (
        "available",
        1,
        "mail server down",
    )


def test_a_shorter_outage_does_not_shorten_a_longer_pause(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 2)
    jobs = claim_some(connection, worker)
    for job, minutes in zip(jobs, (60, 1), strict=True):
        pause = timedelta(minutes=minutes)
        settle_some(connection, worker, [job], Action.RELEASED, error="down", pause=pause)

    left = value(connection, "SELECT paused_until - now() FROM relevo.pauses")

    assert left > timedelta(minutes=59)


@pytest.mark.parametrize("action", BACK)
def test_a_cancel_that_was_asked_for_wins_over_going_back(
    connection: psycopg.Connection, action: Action
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    jobs = claim_some(connection, worker)
    connection.execute("UPDATE relevo.jobs SET cancel_requested_at = now()")

    settle_some(connection, worker, jobs, action, error="e")

    row = job_row(connection, job_id)
    assert (row["state"], row["cancel_requested_at"]) == ("cancelled", None)


def test_a_handlers_cancel_from_before_a_requeue_does_not_count(
    connection: psycopg.Connection,
) -> None:
    """Red when it does: what was asked for again meanwhile would never be done."""
    worker = a_worker(connection)
    stale, own = a_job(connection), a_job(connection)
    claimed = claim_some(connection, worker)
    connection.execute(
        "UPDATE relevo.jobs SET requeued_at = clock_timestamp() WHERE id = %s", [stale]
    )

    settled = settle_some(connection, worker, claimed, Action.CANCELLED, error="out of date")

    assert settled == {stale: "available", own: "cancelled"}
    row, (attempt,) = job_row(connection, stale), history(connection, stale)
    assert (row["attempt"], row["excused"], row["live"]) == (1, 1, True)
    assert (attempt["outcome"], attempt["error"]) == ("cancelled", "out of date")


def test_a_cancel_that_comes_while_the_settle_waits_for_the_row_is_seen(database: str) -> None:
    """Red when the next state is decided from the snapshot, before the row is locked."""
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        a_job(owner)
        jobs = claim_some(owner, worker)
    with (
        psycopg.connect(database) as canceller,
        psycopg.connect(database, options=ENGINES_LEVEL) as settling,
    ):
        canceller.execute("UPDATE relevo.jobs SET cancel_requested_at = now()")
        pid = settling.info.backend_pid
        thread = threading.Thread(
            target=settle_some, args=(settling, worker, jobs, Action.RETRIED), kwargs={"error": "e"}
        )
        thread.start()
        wait_until(
            lambda: query(
                database,
                "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
                pid,
            )
        )

        canceller.commit()

        thread.join(10)
        settling.commit()
    assert query(database, "SELECT state FROM relevo.jobs") == [("cancelled",)]


def test_the_settle_statements_do_not_mention_the_state_in_their_conditions() -> None:
    """A condition on state takes a small index of running rows and walks its dead entries."""
    for name in ("complete_jobs", "settle_jobs"):
        conditions = STATEMENTS[name].sql.partition("WHERE")[2]
        assert "j.state =" not in conditions, name


def test_results_are_stored_as_json_not_as_text(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    text = json.dumps({"é": [1, None, "x"]})

    settle_some(connection, worker, claim_some(connection, worker), result=text)

    assert value(connection, "SELECT result->'é'->>2 FROM relevo.jobs") == "x"
