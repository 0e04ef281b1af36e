"""Jobs of sessions that ended come back, by the same bound as any failure."""

import psycopg
import pytest

from factories import (
    QUEUE,
    a_job,
    a_worker,
    claim_some,
    history,
    job_row,
    settle_some,
    some_jobs,
    states,
    value,
)
from relevo.db.drivers import NotInTransaction, run
from relevo.engine.jobs.rescue import (
    end_expired_sessions,
    find_missing_sessions,
    rescue_lost_jobs,
)
from relevo.engine.jobs.session import close_session, hand_back_unknown, renew
from relevo.model.settlement import Action
from workers import query

pytestmark = pytest.mark.core


def end(connection: psycopg.Connection, worker: int) -> None:
    """The lease of a worker runs out and its session is ended."""
    connection.execute(
        "UPDATE relevo.workers SET expires_at = clock_timestamp() WHERE id = %s", [worker]
    )
    run(connection, end_expired_sessions())


def test_only_sessions_whose_lease_ran_out_are_ended(connection: psycopg.Connection) -> None:
    live, silent = a_worker(connection), a_worker(connection, lease=-1)

    ended = run(connection, end_expired_sessions())

    assert set(ended) == {silent}
    left = connection.execute("SELECT id FROM relevo.workers").fetchall()
    assert left == [(live,)]


def test_a_lost_job_is_due_at_once_and_its_loss_is_counted(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    claim_some(connection, worker)
    end(connection, worker)

    (rescued,) = run(connection, rescue_lost_jobs())

    row, (attempt,) = job_row(connection, job_id), history(connection, job_id)
    assert (rescued.id, rescued.state, rescued.queue) == (job_id, "available", QUEUE)
    assert (row["state"], row["attempt"], row["excused"], row["losses"]) == ("available", 1, 0, 1)
    assert (row["worker"], row["last_error"]) == (None, "worker lost")
    assert value(connection, "SELECT available_at <= clock_timestamp() FROM relevo.jobs")
    assert (attempt["outcome"], attempt["attempt"]) == ("lost", 1)
    assert attempt["started_at"] == row["started_at"]


def test_a_rescue_does_not_move_a_job_to_the_end_of_its_queue(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    a_job(connection, available_at="2001-01-01")
    claim_some(connection, worker)
    end(connection, worker)

    run(connection, rescue_lost_jobs())

    assert value(connection, "SELECT extract(year FROM available_at) FROM relevo.jobs") == 2001


def test_a_loss_in_the_last_attempt_ends_the_job(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, state="running", worker=worker, attempt=3, max_attempts=3)
    end(connection, worker)

    (rescued,) = run(connection, rescue_lost_jobs())

    row, (attempt,) = job_row(connection, job_id), history(connection, job_id)
    assert rescued.state == row["state"] == row["outcome"] == attempt["outcome"] == "failed"
    assert row["last_error"] == attempt["error"] == "worker lost"
    assert row["finished_at"] is not None


def test_excused_starts_do_not_count_against_a_lost_job(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection, state="running", worker=worker, attempt=9, excused=7, max_attempts=3)
    end(connection, worker)

    (rescued,) = run(connection, rescue_lost_jobs())

    assert rescued.state == "available"


def test_a_lost_job_that_was_to_be_cancelled_is_cancelled(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection, state="running", worker=worker, cancel_requested_at="now")
    end(connection, worker)

    (rescued,) = run(connection, rescue_lost_jobs())

    assert rescued.state == "cancelled"


def test_jobs_of_living_sessions_and_jobs_that_ended_are_left_alone(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    mine = a_job(connection, state="running", worker=worker)
    others = a_job(connection, state="running")
    done = a_job(connection, state="completed")
    end(connection, worker)

    rescued = run(connection, rescue_lost_jobs())

    assert [job.id for job in rescued] == [mine]
    assert job_row(connection, others)["state"] == "running"
    assert job_row(connection, done)["state"] == "completed"


def test_a_session_is_forgotten_once_its_jobs_are_back(connection: psycopg.Connection) -> None:
    end(connection, a_worker(connection))
    noted = value(connection, "SELECT count(*) FROM relevo.ended_workers")

    run(connection, rescue_lost_jobs())

    assert noted == 1
    assert value(connection, "SELECT count(*) FROM relevo.ended_workers") == 0


def test_a_rescue_that_is_rolled_back_is_done_again(database: str) -> None:
    with psycopg.connect(database) as connection:
        worker = a_worker(connection)
        a_job(connection, state="running", worker=worker)
        end(connection, worker)
        connection.commit()
        run(connection, rescue_lost_jobs())
        connection.rollback()

        rescued = run(connection, rescue_lost_jobs())

    assert len(rescued) == 1


def test_a_rescue_outside_a_transaction_is_refused(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(NotInTransaction),
    ):
        run(connection, rescue_lost_jobs())


def test_two_rescuers_at_once_share_the_sessions_and_take_no_job_twice(database: str) -> None:
    """Red without both locks: on the ended sessions, and SKIP LOCKED on their jobs."""
    with psycopg.connect(database, autocommit=True) as owner:
        workers = [a_worker(owner) for _ in range(3)]
        for worker in workers:
            a_job(owner, state="running", worker=worker)
            end(owner, worker)
    with psycopg.connect(database) as first, psycopg.connect(database) as second:
        second.execute("SET lock_timeout = '2s'")
        taken = run(first, rescue_lost_jobs())
        meanwhile = run(second, rescue_lost_jobs())
        first.commit()
        second.commit()

    assert len(taken) == 3
    assert meanwhile == []
    assert query(database, "SELECT count(*) FROM relevo.attempts") == [(3,)]


def test_the_job_and_the_sessions_that_exist_are_enough_to_recover_it(
    connection: psycopg.Connection,
) -> None:
    """F-001. Red when a rescue needs the row that the end of a session leaves behind."""
    living, gone = a_worker(connection), a_worker(connection, lease=-1)
    kept = a_job(connection, state="running", worker=living)
    lost = a_job(connection, state="running", worker=gone)
    run(connection, end_expired_sessions())
    connection.execute("DELETE FROM relevo.ended_workers")

    missing = run(connection, find_missing_sessions())
    rescued = run(connection, rescue_lost_jobs())

    assert missing == [gone]
    assert [job.id for job in rescued] == [lost]
    assert job_row(connection, kept)["state"] == "running"


def test_the_sessions_cannot_be_emptied_at_one_stroke(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.ObjectInUse, match="sessions that still run"):
        connection.execute("TRUNCATE relevo.workers")


def test_a_job_that_somebody_has_locked_does_not_hold_up_the_rescue_of_the_others(
    database: str,
) -> None:
    """Red when the rescue waits for the row: a transaction left open would stop every rescue."""
    with psycopg.connect(database) as owner, psycopg.connect(database) as holder:
        worker = a_worker(owner)
        locked, free = a_job(owner), a_job(owner)
        claim_some(owner, worker)
        end(owner, worker)
        owner.commit()
        holder.execute("SELECT FROM relevo.jobs WHERE id = %s FOR UPDATE", [locked])

        owner.execute("SET lock_timeout = '5s'")
        first = run(owner, rescue_lost_jobs())
        owner.commit()
        holder.rollback()
        second = run(owner, rescue_lost_jobs())

        assert [job.id for job in first] == [free]
        assert [job.id for job in second] == [locked]
        assert value(owner, "SELECT count(*) FROM relevo.ended_workers") == 0


@pytest.mark.parametrize("ends", ["rescued", "unknown", "settled"])
def test_a_count_that_was_set_back_by_hand_keeps_no_job_from_ending(
    connection: psycopg.Connection, ends: str
) -> None:
    """Red when the history refuses a second row for an attempt: every rescue would fail with it."""
    worker = a_worker(connection)
    again, other = a_job(connection), a_job(connection)
    connection.execute(
        "INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome)"
        " SELECT tenant_id, id, 1, 'retried' FROM relevo.jobs WHERE id = %s",
        [again],
    )
    claimed = claim_some(connection, worker)

    if ends == "settled":
        settle_some(connection, worker, claimed, Action.RETRIED)
    elif ends == "unknown":
        run(connection, hand_back_unknown(worker, []))
    else:
        end(connection, worker)
        run(connection, rescue_lost_jobs())

    assert states(connection) == {"available": 2}
    assert [len(history(connection, job_id)) for job_id in (again, other)] == [1, 1]


def test_a_settle_that_arrives_before_the_rescue_stands(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    jobs = claim_some(connection, worker)
    end(connection, worker)

    settle_some(connection, worker, jobs)
    rescued = run(connection, rescue_lost_jobs())

    assert rescued == []
    assert states(connection) == {"completed": 1}


def test_a_settle_that_arrives_after_the_rescue_changes_nothing(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    a_job(connection)
    jobs = claim_some(connection, worker)
    end(connection, worker)
    run(connection, rescue_lost_jobs())

    assert settle_some(connection, worker, jobs) == {}
    assert states(connection) == {"available": 1}


def test_a_renewal_after_the_end_says_that_the_session_is_gone(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    renewed = run(connection, renew(worker, 30))
    end(connection, worker)

    assert renewed
    assert not run(connection, renew(worker, 30))


def test_a_renewal_brings_an_expired_lease_back_while_nobody_ended_it(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection, lease=-1)

    renewed = run(connection, renew(worker, 30))

    assert renewed
    assert run(connection, end_expired_sessions()) == {}


def test_a_session_that_is_closed_ends_at_once_and_is_noted_for_the_rescue(
    connection: psycopg.Connection,
) -> None:
    """Red when only the lease is given back, or when what it still held is forgotten."""
    worker = a_worker(connection, lease=3600)

    run(connection, close_session(worker, [QUEUE]))

    assert value(connection, "SELECT count(*) FROM relevo.workers") == 0
    assert value(connection, "SELECT array_agg(id) FROM relevo.ended_workers") == [worker]


def test_what_a_session_holds_without_knowing_it_goes_back_uncharged(
    connection: psycopg.Connection,
) -> None:
    worker, other = a_worker(connection), a_worker(connection)
    some_jobs(connection, 3)
    known, *unknown = claim_some(connection, worker)
    others = a_job(connection, state="running", worker=other)

    count = run(connection, hand_back_unknown(worker, [known.id]))

    assert count == 2
    assert job_row(connection, known.id)["state"] == "running"
    assert job_row(connection, others)["state"] == "running"
    for job in unknown:
        row, (attempt,) = job_row(connection, job.id), history(connection, job.id)
        assert (row["state"], row["attempt"], row["excused"]) == ("available", 1, 1)
        assert attempt["outcome"] == "released"


def test_what_is_held_unknown_and_was_to_be_cancelled_is_cancelled(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection)
    claim_some(connection, worker)
    connection.execute("UPDATE relevo.jobs SET cancel_requested_at = now()")

    run(connection, hand_back_unknown(worker, []))

    row, (attempt,) = job_row(connection, job_id), history(connection, job_id)
    assert (row["state"], row["cancel_requested_at"]) == ("cancelled", None)
    assert (attempt["outcome"], attempt["retry_at"]) == ("cancelled", None)


def test_everything_goes_back_where_nothing_is_known(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 2)
    claim_some(connection, worker)

    assert run(connection, hand_back_unknown(worker, [])) == 2
