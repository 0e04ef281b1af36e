"""`relevo db`: prepare, say, adopt."""

import json
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from real_command import Command
from terminal import answering

from relevo.db.embedded.binaries import locate


def test_migrate_applies_what_is_missing_and_then_nothing(
    nowhere: Command, empty_database: str
) -> None:
    first = nowhere("db", "migrate", "--dsn", empty_database, "-o", "json")
    second = nowhere("db", "migrate", "--dsn", empty_database)

    applied = json.loads(first.stdout)["applied"]
    assert applied[0]["line"] == "relevo"
    assert {step["line"] for step in applied} == {"relevo", "evaluations"}
    assert "is up to date" in second.stdout
    assert (first.returncode, second.returncode) == (0, 0)


def test_status_says_what_is_pending_and_check_makes_it_a_failure(
    nowhere: Command, empty_database: str
) -> None:
    nowhere.variables["DATABASE_URL"] = empty_database

    before = nowhere("db", "status", "-o", "json")
    checked = nowhere("db", "status", "--check")
    nowhere("db", "migrate")
    after = nowhere("db", "status", "--check", "-o", "json")

    assert {each["state"] for each in json.loads(before.stdout)["migrations"]} == {"pending"}
    assert before.returncode == 0
    assert checked.returncode == 5
    assert after.returncode == 0
    assert json.loads(after.stdout)["current"] is True


def test_init_creates_the_database_that_the_dsn_names(nowhere: Command, server: str) -> None:
    dsn = make_conninfo(server, dbname="relevo_made_by_init")
    try:
        made = nowhere("db", "init", "--tenants", "multi", "--dsn", dsn, "-o", "json")
        again = nowhere("db", "init", "--dsn", dsn, "-o", "json")

        with psycopg.connect(dsn) as connection:
            mode = connection.execute("SELECT mode FROM relevo.installation").fetchone()
        assert json.loads(made.stdout)["created"] is True
        assert json.loads(again.stdout) == {"created": False, "applied": []}
        assert mode == ("multi",)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS relevo_made_by_init WITH (FORCE)")


def test_sql_prints_a_script_that_psql_runs_and_nothing_else(
    nowhere: Command, empty_database: str, tmp_path: Path
) -> None:
    script = tmp_path / "relevo.sql"
    printed = nowhere("db", "sql")
    script.write_text(printed.stdout)
    psql = locate() / "psql"
    owner = f"owner={conninfo_to_dict(empty_database)['user']}"

    ran = subprocess.run(
        [psql, "-X", "-q", "-v", owner, "-f", script, empty_database],
        capture_output=True,
        text=True,
        check=False,
    )
    status = nowhere("db", "status", "--check", "--dsn", empty_database)

    assert printed.stderr == ""
    assert ran.returncode == 0, ran.stderr
    assert status.returncode == 0


def test_adopt_lets_a_copy_deliver_and_says_what_differed(relevo: Command, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE relevo.installation SET environment = 'production'")

    adopted = relevo("db", "adopt", "--yes", "-o", "json")
    again = relevo("db", "adopt")

    assert json.loads(adopted.stdout)["differed"] == ["environment"]
    assert "already" in again.stdout
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT environment FROM relevo.installation").fetchone()
    assert row == (relevo.environment["RELEVO_ENVIRONMENT"],)


def test_where_nobody_can_be_asked_a_copy_is_adopted_only_with_yes(
    relevo: Command, database: str
) -> None:
    relevo.variables["RELEVO_ENVIRONMENT"] = "a-restored-copy"

    refused = relevo("db", "adopt")

    assert refused.returncode == 2
    assert "workers would deliver from this database" in refused.stderr
    assert "--yes" in refused.stderr
    assert environment_of(database) == "tests-of-the-command"


def test_a_no_leaves_the_copy_as_it_was_and_says_so(relevo: Command, database: str) -> None:
    relevo.variables["RELEVO_ENVIRONMENT"] = "a-restored-copy"

    declined = answering(relevo, "n\n", "db", "adopt")
    before = environment_of(database)
    accepted = answering(relevo, "y\n", "db", "adopt")

    assert declined.returncode == 1
    assert "nothing was changed" in declined.stderr
    assert before == "tests-of-the-command"
    assert accepted.returncode == 0
    assert environment_of(database) == "a-restored-copy"


def environment_of(database: str) -> str:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT environment FROM relevo.installation").fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("words", [("jobs", "list"), ("worker", "--drain"), ("db", "adopt")])
def test_a_database_without_schema_is_named_with_its_remedy(
    nowhere: Command, empty_database: str, words: tuple[str, ...]
) -> None:
    answer = nowhere(*words, "--dsn", empty_database)

    assert answer.returncode == 1
    assert "relevo db migrate" in answer.stderr
    assert "Traceback" not in answer.stderr
