"""`relevo bench`: what it prints, what it refuses, and that nothing of it stays."""

import json
import signal

import psycopg
import pytest
from real_command import ENVIRONMENT, PATIENCE, Command

import workers
from factories import a_job, job_row
from relevo.bench.own import QUEUE
from relevo.bench.raw import SCHEMA
from relevo.db.drivers import run
from relevo.db.identity import Mode, adopt, set_mode

TINY = ("--jobs", "60", "--single", "5", "--idle", "3", "--rounds", "1")
ENDLESS = ("--jobs", "500", "--single", "5", "--idle", "3", "--rounds", "1000")


def traces(dsn: str) -> tuple[int, int, int]:
    """Its jobs, its schema, and sessions of workers."""
    jobs = workers.query(dsn, "SELECT count(*) FROM relevo.jobs WHERE queue = %s", QUEUE)
    schemas = workers.query(dsn, "SELECT count(*) FROM pg_namespace WHERE nspname = %s", SCHEMA)
    sessions = workers.query(dsn, "SELECT count(*) FROM relevo.workers")
    return jobs[0][0], schemas[0][0], sessions[0][0]


def is_at_work(dsn: str) -> bool:
    """Whether jobs of it have run on relevo's side."""
    found = workers.query(
        dsn, "SELECT count(*) FROM relevo.jobs WHERE queue = %s AND state = 'completed'", QUEUE
    )
    return found[0][0] > 0


def test_it_answers_both_sides_and_their_ratio_for_each_measure(
    relevo: Command, database: str
) -> None:
    ended = relevo("bench", *TINY, "--rounds", "2", "-o", "json")

    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert list(said["measures"]) == ["bulk", "single", "drain", "start", "start_p99"]
    for name in ("bulk", "single", "drain"):
        assert all(said["measures"][name][side] > 0 for side in ("raw", "relevo"))
        assert said["measures"][name]["ratio"].keys() == {"median", "lowest", "highest"}
    assert (said["jobs"], said["single"], said["idle"], said["rounds"]) == (60, 5, 3, 2)
    assert traces(database) == (0, 0, 0)


def test_people_get_a_table_and_are_told_how_to_read_it(relevo: Command) -> None:
    ended = relevo("bench", *TINY, "--lang", "es")

    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 6
    assert "relevo" in ended.stdout
    assert "Lea las proporciones" in ended.stderr


def test_jobs_of_others_neither_run_nor_go(relevo: Command, connection: psycopg.Connection) -> None:
    waiting, done = a_job(connection), a_job(connection, state="completed")
    connection.commit()
    before = [job_row(connection, each) for each in (waiting, done)]
    connection.commit()

    ended = relevo("bench", *TINY)

    assert ended.returncode == 0, ended.stderr
    assert [job_row(connection, each) for each in (waiting, done)] == before


def test_an_installation_with_many_tenants_is_measured_like_any_other(
    relevo: Command, database: str
) -> None:
    with psycopg.connect(database) as owner:
        run(owner, set_mode(Mode.MULTI))

    ended = relevo("bench", *TINY)

    assert ended.returncode == 0, ended.stderr
    assert traces(database) == (0, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_removes_what_was_made(
    relevo: Command, database: str, number: signal.Signals
) -> None:
    with relevo.started("bench", *ENDLESS) as process:
        workers.wait_until(lambda: is_at_work(database), bound=PATIENCE)
        process.send_signal(number)
        code = process.wait(PATIENCE)
        said = process.communicate()[1]

    assert code == 128 + number
    assert "what was made is removed" in said
    assert traces(database) == (0, 0, 0)


def test_the_next_run_removes_what_a_kill_has_left(relevo: Command, database: str) -> None:
    with relevo.started("bench", *ENDLESS) as process:
        workers.wait_until(lambda: is_at_work(database), bound=PATIENCE)
        process.kill()
        process.wait(PATIENCE)
    assert traces(database)[0] > 0

    ended = relevo("bench", *TINY)

    assert ended.returncode == 0, ended.stderr
    assert traces(database)[:2] == (0, 0)


def test_a_second_measurement_waits_for_nobody(relevo: Command, database: str) -> None:
    with relevo.started("bench", *ENDLESS) as process:
        workers.wait_until(lambda: is_at_work(database), bound=PATIENCE)

        ended = relevo("bench", *TINY)

        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert ended.returncode == 4
    assert "another `relevo bench`" in ended.stderr


def test_a_schema_of_somebody_else_is_never_dropped(relevo: Command, database: str) -> None:
    workers.query(database, f"CREATE SCHEMA {SCHEMA}")

    ended = relevo("bench", *TINY)

    assert ended.returncode == 4
    assert f"the schema {SCHEMA} exists" in ended.stderr
    assert traces(database)[1] == 1


@pytest.mark.parametrize("marker", ["production", "shop-PROD", "live"])
def test_what_is_marked_as_production_needs_a_yes(
    relevo: Command, database: str, marker: str
) -> None:
    with psycopg.connect(database) as owner:
        run(owner, adopt(marker))
    relevo.variables["RELEVO_ENVIRONMENT"] = marker

    refused = relevo("bench", *TINY)

    assert refused.returncode == 4
    assert f"marked as '{marker}'" in refused.stderr


def test_with_a_yes_production_is_measured(relevo: Command, database: str) -> None:
    with psycopg.connect(database) as owner:
        run(owner, adopt("production"))
    relevo.variables["RELEVO_ENVIRONMENT"] = "production"

    ended = relevo("bench", *TINY, "--yes")

    assert ended.returncode == 0, ended.stderr


def test_a_copy_is_not_measured(relevo: Command, database: str) -> None:
    with psycopg.connect(database) as owner:
        run(owner, adopt(f"not {ENVIRONMENT}"))

    ended = relevo("bench", *TINY)

    assert ended.returncode == 4
    assert "copy of another database" in ended.stderr
