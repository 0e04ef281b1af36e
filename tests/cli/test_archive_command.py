"""`relevo archive`, and what `relevo jobs show` says of a job that went there."""

import json
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from real_command import Command

from archiving import archived, months, overdue_jobs
from factories import a_job, value
from relevo.db.drivers import run
from relevo.engine.archive import make_months
from relevo.engine.jobs.prune import prune


def as_json(command: Command, *words: str) -> Any:
    answer = command(*words, "-o", "json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture
def pruned(relevo: Command, connection: psycopg.Connection) -> psycopg.Connection:
    """The archive is on and has two jobs, one of January 2020 and one of today."""
    relevo("archive", "on")
    overdue_jobs(connection, 1, at=datetime(2020, 1, 31, 23, tzinfo=UTC))
    overdue_jobs(connection, 1)
    run(connection, make_months())
    assert run(connection, prune()).archived == 2
    connection.commit()
    return connection


def test_it_is_off_at_first_and_says_so(relevo: Command) -> None:
    said = relevo("archive", "status", "--lang", "es").stdout

    assert as_json(relevo, "archive", "status") == {"on": False, "keep_months": None, "months": []}
    assert said.startswith("el archivo histórico está desactivado")


def test_switched_on_it_has_this_month_and_the_next(
    relevo: Command, connection: psycopg.Connection
) -> None:
    said = as_json(relevo, "archive", "on", "--keep", "24M")

    first, second = said["months"]
    now = value(connection, "SELECT now()").astimezone(UTC)
    begin = datetime(now.year, now.month, 1, tzinfo=UTC)
    assert (said["on"], said["keep_months"]) == (True, 24)
    assert first["month"] == f"{now:%Y-%m}"
    assert datetime.fromisoformat(first["gone_at"]) == begin.replace(
        year=begin.year + 2 + (begin.month == 12), month=begin.month % 12 + 1
    )
    assert second["month"] > first["month"]
    assert as_json(relevo, "archive", "status") == said


def test_switched_off_it_keeps_what_it_has(relevo: Command, pruned: psycopg.Connection) -> None:
    relevo("archive", "on", "--keep", "100y")

    said = as_json(relevo, "archive", "off")

    assert (said["on"], said["keep_months"], len(said["months"])) == (False, 1200, 3)
    assert len(archived(pruned)) == 2


def test_the_time_to_keep_stays_until_another_is_named(relevo: Command) -> None:
    kept = [
        as_json(relevo, "archive", "on", *words)["keep_months"]
        for words in ([], ["--keep", "2Y"], [], ["--keep", "ever"])
    ]

    assert kept == [None, 24, 24, None]


@pytest.mark.parametrize("words", ["0M", "24", "24d", "101Y", "-1M", "soon"])
def test_a_time_that_is_none_is_a_matter_of_usage(relevo: Command, words: str) -> None:
    ended = relevo("archive", "on", f"--keep={words}")

    assert ended.returncode == 2, ended.stderr
    assert as_json(relevo, "archive", "status")["on"] is False


def test_a_shorter_time_that_drops_months_needs_yes(
    relevo: Command, pruned: psycopg.Connection
) -> None:
    """Red when the switch is silent: a slip of the hand would drop years within a minute."""
    asked = relevo("archive", "on", "--keep", "12M")
    unchanged = as_json(relevo, "archive", "status")
    done = relevo("archive", "on", "--keep", "12M", "--yes")

    assert asked.returncode == 2
    assert "2020-01" in asked.stderr
    assert "--yes" in asked.stderr
    assert unchanged["keep_months"] is None
    assert done.returncode == 0, done.stderr
    assert "archive_2020_01" in months(pruned)  # a worker drops it, not the command


def test_a_login_that_does_not_own_the_schema_may_look_and_not_switch(
    relevo: Command, connection: psycopg.Connection, database: str
) -> None:
    connection.execute("CREATE ROLE relevo_archive_reader LOGIN IN ROLE relevo_web")
    connection.commit()
    dsn = make_conninfo(database, user="relevo_archive_reader")
    try:
        looked = relevo("archive", "status", "--dsn", dsn)
        switched = relevo("archive", "on", "--dsn", dsn)
    finally:
        connection.execute("DROP ROLE relevo_archive_reader")
        connection.commit()

    assert looked.returncode == 0, looked.stderr
    assert switched.returncode == 1
    assert "owns the schema" in switched.stderr


def test_the_months_are_shown_in_a_table(relevo: Command, pruned: psycopg.Connection) -> None:
    pruned.execute("ANALYZE relevo.archive_2020_01")
    pruned.commit()

    said = relevo("archive", "status").stdout.splitlines()

    assert said[0] == "the archive is on and keeps finished jobs for ever"
    assert said[2].split() == ["month", "jobs,", "about", "bytes", "goes", "at"]
    month, jobs, size, goes = said[3].split()
    assert (month, jobs, int(size) > 0, goes) == ("2020-01", "1", True, "never")


@pytest.mark.parametrize(
    ("language", "label"),
    [("en", "archived at"), ("es", "archivado en"), ("pt", "arquivado em")],
)
def test_an_archived_job_is_shown_and_said_to_be_archived(
    relevo: Command, pruned: psycopg.Connection, language: str, label: str
) -> None:
    job_id = str(archived(pruned)[0]["id"])

    said = relevo("jobs", "show", job_id, "--lang", language)
    shown = as_json(relevo, "jobs", "show", job_id)

    assert any(line.startswith(label) for line in said.stdout.splitlines())
    assert said.stderr.count("\n") == 1
    assert (shown["state"], shown["payload"], shown["attempts"]) == ("completed", {"n": 1}, [])
    assert datetime.fromisoformat(shown["archived_at"]) == archived(pruned)[0]["archived_at"]


def test_a_retry_of_an_archived_job_says_where_it_is_and_what_to_do(
    relevo: Command, pruned: psycopg.Connection
) -> None:
    """Red when it is said not to exist, though `jobs show` finds it."""
    job_id = str(archived(pruned)[0]["id"])

    said = relevo("jobs", "retry", job_id)

    assert said.returncode == 3
    assert f"job {job_id} is in the archive" in said.stderr
    assert f"relevo jobs show {job_id}" in said.stderr


def test_a_job_that_is_not_archived_says_nothing_of_it(
    relevo: Command, connection: psycopg.Connection
) -> None:
    job_id = str(a_job(connection))
    connection.commit()

    said = relevo("jobs", "show", job_id)

    assert "archived" not in said.stdout + said.stderr
    assert as_json(relevo, "jobs", "show", job_id)["archived_at"] is None


def test_a_job_that_is_nowhere_ends_with_3(relevo: Command, pruned: psycopg.Connection) -> None:
    assert relevo("jobs", "show", "987654321").returncode == 3
