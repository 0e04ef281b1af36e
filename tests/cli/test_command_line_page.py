"""The reference of the command line names every check of doctor, and each key of its JSON."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import psycopg
import pytest
from real_command import Command

from factories import a_job
from relevo.cli import build_cli
from relevo.cli.declare import Group
from relevo.cli.doctor.command import CHECKS
from relevo_apps import main as composition

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
TEXT = PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    """What the page says of some commands."""
    return TEXT.partition(f"\n### {title}\n")[2].partition("\n## ")[0].partition("\n### ")[0]


def commands(above: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that runs, by the words that are typed for it."""
    if not isinstance(above, Group):
        yield name, above
        return
    context = click.Context(above)
    for below in above.list_commands(context):
        found = above.get_command(context, below)
        assert found is not None
        yield from commands(found, f"{name} {below}".strip())


def line_of(title: str, beginning: str) -> str:
    (line,) = re.findall(rf"^{re.escape(beginning)}(.+)$", section(title), re.MULTILINE)
    return str(line)


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", text))


def test_the_table_of_checks_has_those_that_doctor_makes() -> None:
    checkups = [checkup.code for checkup in composition.checkups()]

    said = re.findall(r"^\| `(\w+)` \|", section("doctor"), re.MULTILINE)

    assert sorted(said) == sorted([*(check.code for check in CHECKS), *checkups])


def test_the_page_says_what_is_looked_at_before_the_first_migration() -> None:
    checkups = {checkup.code for checkup in composition.checkups()}
    (said,) = re.findall(r"Before the first migration only (.+) are looked at", section("doctor"))

    assert names_in(said) == {check.code for check in CHECKS if not check.needs_schema} | checkups


def test_the_page_says_which_commands_print_no_json() -> None:
    cli = build_cli(
        app=composition.application, lines=composition.lines, commands=composition.COMMANDS
    )
    silent = {
        name
        for name, command in commands(cli)
        if not any("--output" in parameter.opts for parameter in command.params)
    }
    (said,) = re.findall(r"how data is printed \(not (.+), which print", TEXT)

    assert set(re.findall(r"`([\w ]+)`", said)) == silent


@pytest.fixture
def failed(connection: psycopg.Connection) -> str:
    """The id of a failed job with one start before that."""
    job = a_job(connection, state="failed", attempt=2, last_error="boom")
    connection.execute(
        "INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome) "
        "SELECT tenant_id, id, 1, 'retried' FROM relevo.jobs WHERE id = %s",
        [job],
    )
    connection.commit()
    return str(job)


def test_the_documents_of_jobs_have_the_keys_that_the_page_names(
    relevo: Command, failed: str
) -> None:
    of_job = names_in(line_of("jobs", "Each job has "))

    listed = json.loads(relevo("jobs", "list", "-o", "json").stdout)
    shown = json.loads(relevo("jobs", "show", failed, "-o", "json").stdout)
    retried = json.loads(relevo("jobs", "retry", failed, "99999", "-o", "json").stdout)

    assert set(listed) == {"jobs", "before"}
    assert set(listed["jobs"][0]) == of_job
    assert set(shown) - of_job == names_in(line_of("jobs", "JSON of `show`:"))
    (start,) = shown["attempts"]
    assert set(start) == names_in(line_of("jobs", "Each of the `attempts` has "))
    assert names_in(line_of("jobs", "JSON of `retry`:")) == {
        *retried,
        *retried["refused"][0],
    }


def test_the_documents_of_db_have_the_keys_that_the_page_names(
    nowhere: Command, empty_database: str
) -> None:
    nowhere.variables["RELEVO_DSN"] = empty_database

    made = json.loads(nowhere("db", "init", "-o", "json").stdout)
    again = json.loads(nowhere("db", "migrate", "-o", "json").stdout)
    status = json.loads(nowhere("db", "status", "-o", "json").stdout)
    adopted = json.loads(nowhere("db", "adopt", "-o", "json").stdout)

    assert made.keys() == again.keys()
    assert {*made, *made["applied"][0]} == names_in(line_of("db", "JSON of `init` and `migrate`:"))
    states = {"applied", "pending", "changed", "unknown"}
    of_status = names_in(line_of("db", "JSON of `status`:"))
    assert {*status, *status["migrations"][0], *states} == of_status
    assert set(adopted) == names_in(line_of("db", "JSON of `adopt`:"))


def test_the_document_of_doctor_has_the_keys_that_the_page_names(relevo: Command) -> None:
    examined = json.loads(relevo("doctor", "-o", "json").stdout)

    assert set(examined) == names_in(line_of("doctor", "JSON: "))
    of_check = line_of("doctor", "Each check has ").partition(" what it counted")[0]
    assert set(examined["checks"][0]) == names_in(of_check)
