"""A claim can never be committed after its session has ended, shown by really blocking."""

import threading

import psycopg
import pytest

from factories import a_job, a_worker, claim_some
from limiting import ENGINES_LEVEL
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from workers import query, wait_until

pytestmark = pytest.mark.core


def blocked(dsn: str) -> bool:
    """Whether some backend of this database waits for a lock."""
    return bool(
        query(
            dsn,
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0",
        )
    )


def test_the_end_of_a_session_waits_for_its_open_claim(database: str) -> None:
    """Red without FOR KEY SHARE on the worker's row: the delete would not wait."""
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner, lease=-1)
        job_id = a_job(owner)
    with psycopg.connect(database, options=ENGINES_LEVEL) as claimer:
        claim_some(claimer, worker)
        ending = threading.Thread(
            target=query, args=(database, "DELETE FROM relevo.workers WHERE id = %s", worker)
        )
        ending.start()
        wait_until(lambda: blocked(database))

        claimer.commit()

        ending.join(10)
    assert not ending.is_alive()
    with psycopg.connect(database, options=ENGINES_LEVEL) as rescuer:
        assert [job.id for job in run(rescuer, rescue_lost_jobs())] == [job_id]


def test_the_rescuer_passes_by_a_session_with_an_open_claim_and_ends_it_later(
    database: str,
) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner, lease=-1)
        a_job(owner)
        with psycopg.connect(database, options=ENGINES_LEVEL) as claimer:
            claim_some(claimer, worker)

            meanwhile = run(owner, end_expired_sessions())

            claimer.commit()
        afterwards = run(owner, end_expired_sessions())
    assert meanwhile == {}
    assert set(afterwards) == {worker}


def test_a_claim_that_comes_while_its_session_is_ended_waits_and_takes_nothing(
    database: str,
) -> None:
    """Red without FOR KEY SHARE: the claim would commit under a session that is gone."""
    taken: list[object] = []
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner, lease=-1)
        job_id = a_job(owner)

    def claim_late() -> None:
        with psycopg.connect(database, options=ENGINES_LEVEL) as connection:
            taken.append(claim_some(connection, worker))

    with psycopg.connect(database) as ender:
        ender.execute("DELETE FROM relevo.workers WHERE id = %s", [worker])
        claimer = threading.Thread(target=claim_late)
        claimer.start()
        wait_until(lambda: blocked(database))

        ender.commit()

        claimer.join(10)
    assert taken == [[]]
    assert query(database, "SELECT state, attempt FROM relevo.jobs WHERE id = %s", job_id) == [
        ("available", 0)
    ]


def test_a_heartbeat_does_not_wait_for_its_own_open_claim(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        a_job(owner)
        with psycopg.connect(database, options=ENGINES_LEVEL) as claimer:
            claim_some(claimer, worker)
            owner.execute("SET lock_timeout = '1s'")

            renewed = owner.execute(
                "UPDATE relevo.workers SET heartbeat_at = clock_timestamp() WHERE id = %s", [worker]
            )

    assert renewed.rowcount == 1


def test_a_running_workers_row_cannot_be_deleted_by_hand(connection: psycopg.Connection) -> None:
    """Red without the guard trigger on relevo.workers."""
    worker = a_worker(connection, lease=30)

    with pytest.raises(psycopg.errors.ObjectInUse, match="still holds its lease"):
        connection.execute("DELETE FROM relevo.workers WHERE id = %s", [worker])


def test_a_row_deleted_by_hand_after_its_lease_leaves_its_jobs_to_the_rescue(
    connection: psycopg.Connection,
) -> None:
    """Red when only the rescuer's own statement notes the session that ended."""
    worker = a_worker(connection, lease=-1)
    job_id = a_job(connection, state="running", worker=worker)
    connection.execute("DELETE FROM relevo.workers WHERE id = %s", [worker])

    rescued = run(connection, rescue_lost_jobs())

    assert [(job.id, job.state) for job in rescued] == [(job_id, "available")]
    assert connection.execute("SELECT count(*) FROM relevo.ended_workers").fetchone() == (0,)
