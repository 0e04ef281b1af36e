"""`relevo worker` and `relevo up`: what starts, what stops it, what it refuses."""

import json
import signal

import psycopg
import pytest
from real_command import PATIENCE, Command, read_until
from talking_jobs import give_up, talk

import workers
from child_jobs import note, slow
from factories import a_job, job_row
from relevo.db.migrate import ENGINE, migrate

APP = ("--app", "child_jobs:app")


@pytest.fixture
def effects(database: str) -> None:
    workers.make_effects(database)


def test_drain_runs_what_is_due_and_ends_well(
    relevo: Command, connection: psycopg.Connection, effects: None
) -> None:
    job = note.enqueue(connection)
    connection.commit()

    ran = relevo("worker", "--drain", *APP)

    assert ran.returncode == 0, ran.stderr
    assert job_row(connection, job.id)["state"] == "completed"


def test_sigterm_lets_running_jobs_end_and_exits_with_zero(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    job = slow.enqueue(connection, seconds=0.5)
    connection.commit()

    with relevo.started("worker", *APP) as process:
        workers.wait_until(lambda: workers.effects(database, "began"))
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 0
    assert job_row(connection, job.id)["state"] == "completed"


def test_a_second_signal_ends_at_once(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    slow.enqueue(connection, seconds=300)
    connection.commit()

    with relevo.started("worker", "--grace", "5m", *APP) as process:
        workers.wait_until(lambda: workers.effects(database, "began"))
        process.send_signal(signal.SIGINT)
        read_until(process, "once more ends at once")
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 128 + signal.SIGTERM


def test_grace_bounds_how_long_a_stop_waits(
    relevo: Command, connection: psycopg.Connection, database: str, effects: None
) -> None:
    job = slow.enqueue(connection, seconds=300)
    connection.commit()

    with relevo.started("worker", "--grace", "0", *APP) as process:
        workers.wait_until(lambda: workers.effects(database, "began"))
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    row = job_row(connection, job.id)
    assert code == 0
    assert (row["state"], row["excused"]) == ("available", 1)


def test_a_copy_delivers_nothing_until_it_is_adopted(
    relevo: Command, connection: psycopg.Connection, effects: None
) -> None:
    job = note.enqueue(connection)
    connection.commit()
    relevo.variables["RELEVO_ENVIRONMENT"] = "a-restored-copy"

    refused = relevo("worker", "--drain", *APP)
    state = job_row(connection, job.id)["state"]
    connection.commit()
    adopted = relevo("db", "adopt", "--yes")
    ran = relevo("worker", "--drain", *APP)

    assert refused.returncode == 4
    assert "environment: pinned tests-of-the-command, found a-restored-copy" in refused.stderr
    assert "relevo db adopt" in refused.stderr
    assert "jobs that workers would run from here: default 1" in adopted.stderr
    assert state == "available"
    assert (adopted.returncode, ran.returncode) == (0, 0)
    assert job_row(connection, job.id)["state"] == "completed"


def test_a_worker_refuses_a_schema_older_than_itself(nowhere: Command, empty_database: str) -> None:
    migrate(empty_database, [ENGINE])

    refused = nowhere("worker", "--drain", "--dsn", empty_database)

    assert refused.returncode == 1
    assert "evaluations 0001" in refused.stderr


def test_a_worker_serves_only_the_queues_that_it_is_given(
    relevo: Command, connection: psycopg.Connection, effects: None
) -> None:
    here = note.with_options(queue="here").enqueue(connection)
    there = note.with_options(queue="there").enqueue(connection)
    connection.commit()

    ran = relevo("worker", "--drain", "-q", "here", "-q", "elsewhere", *APP)

    assert "uses the queue here; its queues are: default" in ran.stderr
    assert job_row(connection, here.id)["state"] == "completed"
    assert job_row(connection, there.id)["state"] == "available"


@pytest.mark.parametrize("written", ["text", "json"])
def test_log_lines_name_their_job_and_move_no_cursor(
    relevo: Command, connection: psycopg.Connection, written: str
) -> None:
    job = talk.enqueue(connection, "hola")
    connection.commit()

    ran = relevo("worker", "--drain", "--log-format", written, "--app", "talking_jobs:app")

    lines = [line for line in ran.stderr.splitlines() if "hola" in line]
    assert ran.stdout == ""
    assert len(lines) == 1, ran.stderr
    assert "\x1b" not in lines[0]
    if written == "json":
        assert json.loads(lines[0])["job_id"] == job.id
    else:
        assert f"job_id={job.id} kind=talking.job" in lines[0]


def test_the_log_says_which_session_the_starts_are_of(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job = give_up.enqueue(connection)
    connection.commit()

    ran = relevo("worker", "--drain", "--app", "talking_jobs:app")
    shown = json.loads(relevo("jobs", "show", str(job.id), "-o", "json").stdout)

    (start,) = shown["attempts"]
    assert f"session {start['worker']} begins for worker " in ran.stderr


@pytest.mark.parametrize("app", ["child_jobs", "child_jobs:nothing", "nowhere:app", "json:dumps"])
def test_what_is_no_application_is_refused_as_a_wrong_argument(relevo: Command, app: str) -> None:
    refused = relevo("worker", "--drain", "--app", app)

    assert refused.returncode == 2
    assert "is no application" in refused.stderr


def test_up_needs_no_database_and_its_server_is_shared_until_the_last_leaves(
    nowhere: Command,
) -> None:
    with nowhere.started("up") as process:
        said = read_until(process, "serves")
        listed = nowhere("jobs", "list", "-o", "json")
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)

    assert "psql" in said
    assert json.loads(listed.stdout) == {"jobs": [], "before": None}
    assert code == 0
    assert not list((nowhere.home / "postgresql" / "data").glob("postmaster.pid"))


def test_the_worker_hears_of_a_job_without_waiting_for_its_poll(
    relevo: Command, connection: psycopg.Connection, effects: None
) -> None:
    with relevo.started("worker", "--poll", "10m", *APP) as process:
        read_until(process, "serves")
        workers.wait_until(
            lambda: connection.execute("SELECT idle FROM relevo.workers").fetchone() == (True,)
        )
        job = note.enqueue(connection)
        connection.commit()
        workers.wait_until(lambda: job_row(connection, job.id)["state"] == "completed")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_drained_worker_says_which_queue_rests_and_what_waits(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection, queue="mail")
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason) "
        "VALUES ('queue', 'mail', '2999-01-01', 'the server is away')"
    )
    connection.commit()

    ended = relevo("worker", "--drain", "-q", "mail", "-q", "nosuch")

    assert ended.returncode == 0
    assert "no kind of this application uses the queue nosuch" in ended.stderr
    assert "stopped; still waiting: mail 1 (paused until 2999-01-01" in ended.stderr
    assert "the server is away)" in ended.stderr
