"""F-001 to F-003 and F-006: what a worker held when it was killed, whatever became of its row.

F-004 is tests/loops/test_alone.py.
Mechanisms: the job's row alone says whether it is lost; a session's id is never used again; the
rescue counts a loss as a start; a claim holds its session's row, so none commits after its end.
"""

import os
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from field_children import (
    BOUND,
    BUSY,
    a_field_child,
    clock,
    is_blocked,
    last_stuck,
    marked_at,
    marks,
)
from field_jobs import app, brief, first_hangs, hangs

from factories import history, job_row, value
from workers import LEASE, make_effects, query, running, wait_until


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def take_away(owner: psycopg.Connection, name: str, *, without_a_trace: bool) -> None:
    """Delete the session's row, past the guard that says no while its lease runs."""
    with owner.transaction():
        if without_a_trace:
            owner.execute("SET LOCAL session_replication_role = replica")
        else:
            owner.execute(
                "UPDATE relevo.workers SET expires_at = clock_timestamp() WHERE name = %s", [name]
            )
        owner.execute("DELETE FROM relevo.workers WHERE name = %s", [name])


@pytest.mark.parametrize("without_a_trace", [False, True], ids=["noted", "without a trace"])
def test_f001_the_jobs_of_a_killed_worker_come_back_though_its_row_is_deleted_at_once(
    database: str, owner: psycopg.Connection, *, without_a_trace: bool
) -> None:
    """The job's row alone says whether it is lost. Red when the rescue joins the session's row."""
    with owner.transaction():
        jobs = first_hangs.enqueue_many(owner, [{"seconds": 600.0}] * 20)
    with a_field_child(database, "doomed", concurrency=20) as doomed:
        wait_until(lambda: len(marks(database, "began")) == 20, BOUND)
        doomed.kill()
    with pytest.raises(psycopg.errors.ObjectInUse):
        owner.execute("DELETE FROM relevo.workers WHERE name = 'doomed'")
    take_away(owner, "doomed", without_a_trace=without_a_trace)
    gone_at = clock(database)

    with running(app, database, concurrency=20):
        stuck_at = last_stuck(database, lambda: len(marks(database, "done")) == 20, "the 20 jobs")

    assert stuck_at - gone_at < 2 * LEASE + BUSY
    assert marked_at(database, "began", 2) - gone_at < 2 * LEASE + BUSY
    done = marks(database, "done")
    assert sorted(done) == sorted((job.id, 2, os.getpid()) for job in jobs)


def test_f002_one_new_worker_takes_up_what_the_only_one_left(
    database: str, owner: psycopg.Connection
) -> None:
    """A session's id is never used again. Red when a job stays bound to the old one."""
    job = first_hangs.enqueue(owner, seconds=600.0)
    with a_field_child(database, "only") as only:
        wait_until(lambda: marks(database, "began"), BOUND)
        only.kill()
    killed_at = clock(database)

    with running(app, database, name="new"):
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", BOUND)

    assert job_row(owner, job.id)["attempt"] == 2
    assert marked_at(database, "began", 2) - killed_at < LEASE + timedelta(seconds=5) + BUSY
    assert [attempt["outcome"] for attempt in history(owner, job.id)] == ["lost"]


def test_f003_a_crash_in_the_last_attempt_ends_the_job(
    database: str, owner: psycopg.Connection
) -> None:
    """The rescue counts a loss as a start. Red when it takes back only what has a start left."""
    job = hangs.enqueue(owner, seconds=600.0)
    owner.execute("UPDATE relevo.jobs SET attempt = 4")
    with a_field_child(database, "doomed") as doomed:
        wait_until(lambda: marks(database, "began"), BOUND)
        doomed.kill()
    killed_at = clock(database)

    with running(app, database):
        wait_until(lambda: job_row(owner, job.id)["state"] == "failed", BOUND)
        later = brief.enqueue(owner)
        wait_until(lambda: job_row(owner, later.id)["state"] == "completed", BOUND)

    row = job_row(owner, job.id)
    assert (row["attempt"], row["last_error"]) == (5, "worker lost")
    assert row["finished_at"] - killed_at < 2 * LEASE + BUSY
    assert [(id_, attempt) for id_, attempt, _ in marks(database, "began")] == [
        (job.id, 5),
        (later.id, 1),
    ]


def test_f006_a_claim_that_commits_while_its_session_is_ended_is_recovered(
    database: str, owner: psycopg.Connection
) -> None:
    """A claim holds its session's row. Red without FOR KEY SHARE: the end would overtake it."""
    owner.execute(
        "CREATE FUNCTION public.wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_advisory_xact_lock_shared(6); RETURN NEW; END $$"
    )
    owner.execute(
        "CREATE TRIGGER wait_here BEFORE UPDATE ON relevo.jobs FOR EACH ROW"
        " WHEN (NEW.state = 'running') EXECUTE FUNCTION public.wait_here()"
    )
    owner.execute("SELECT pg_advisory_lock(6)")
    with a_field_child(database, "paused") as paused:
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers"), BOUND)
        job = first_hangs.enqueue(owner, seconds=600.0)
        wait_until(lambda: is_blocked(database, "relevo claim paused"), BOUND)
        paused.send(signal.SIGSTOP)
        # What deregisters it waits for the claim; without that it would come first.
        ending = threading.Thread(
            target=query,
            args=(
                database,
                "DELETE FROM relevo.workers WHERE name = 'paused'",
            ),
        )
        owner.execute("UPDATE relevo.workers SET expires_at = clock_timestamp()")
        ending.start()
        wait_until(lambda: is_blocked(database, "") or not ending.is_alive(), BOUND)
        assert ending.is_alive(), "the session ended while its claim was open"

        owner.execute("SELECT pg_advisory_unlock(6)")
        ending.join(BOUND)
        committed_at = clock(database)
        paused.kill()

        with running(app, database):
            wait_until(lambda: job_row(owner, job.id)["state"] == "completed", BOUND)

    assert job_row(owner, job.id)["attempt"] == 2
    assert [attempt["outcome"] for attempt in history(owner, job.id)] == ["lost"]
    assert marked_at(database, "began", 2) - committed_at < LEASE + BUSY
