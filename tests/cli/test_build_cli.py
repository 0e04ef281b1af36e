"""Put a command together: an application's commands, errors and texts beside relevo's own."""

from collections.abc import Sequence

import click
import psycopg
import pytest
from click.testing import CliRunner, Result

from relevo import Relevo, RelevoError, WorkerSettings
from relevo.cli import (
    Duration,
    Exit,
    Late,
    Shell,
    build_cli,
    command,
    option,
    options,
    pass_shell,
    register_exit,
)
from relevo.cli.durations import write_duration
from relevo.db.migrate import Line
from relevo.engine.jobs.errors import JobNotFound


class ShopClosed(RelevoError):
    """An error of an application."""

    template = "the shop is closed until %(until)s; come back then"


register_exit(ShopClosed, Exit.BLOCKED)


@command("shop")
@click.argument("what")
@option("--for", "for_", type=Duration(), default="1s", help="How long.")
@options()
@pass_shell
def shop(shell: Shell, /, *, what: str, for_: object) -> None:
    """Sell something."""
    if what == "closed":
        raise ShopClosed(until="noon")
    if what == "interrupted":
        raise KeyboardInterrupt
    if what == "interrupted in mid-statement":
        try:
            raise KeyboardInterrupt
        finally:
            raise psycopg.ProgrammingError("connection in transaction status ACTIVE")
    if what == "missing":
        raise JobNotFound(id=7)
    if what == "broken":
        raise ZeroDivisionError
    if shell.out.as_json:
        shell.out.json({"sold": what, "for": for_})
    else:
        shell.out.table(["what"], [[what]])


def lines() -> Sequence[Line]:
    return []


def run(*words: str, **variables: str) -> Result:
    late = Late("late", "test_build_cli:shop", "Sell something later.")
    cli = build_cli(app=Relevo, lines=lines, commands=[shop, late])
    return CliRunner(env={"RELEVO_LANG": "en", **variables}).invoke(cli, words)


def test_commands_of_an_application_stand_beside_our_own() -> None:
    said = run("--help").stdout

    assert "Sell something." in said
    assert "Sell something later." in said
    assert "doctor" in said


@pytest.mark.parametrize("name", ["shop", "late"])
def test_a_command_prints_data_on_stdout_in_both_forms(name: str) -> None:
    assert run(name, "tea").stdout == "what\ntea\n"
    assert run(name, "tea", "-o", "json", "--for", "2m").stdout == (
        '{\n  "sold": "tea",\n  "for": 120.0\n}\n'
    )


def test_an_error_of_an_application_ends_as_it_was_registered() -> None:
    ended = run("shop", "closed")

    assert ended.exit_code == Exit.BLOCKED
    assert ended.stderr == "Error: the shop is closed until noon; come back then\n"
    assert ended.stdout == ""


def test_an_interruption_ends_with_130() -> None:
    assert run("shop", "interrupted").exit_code == 130


def test_an_interruption_that_a_connection_refuses_to_clean_up_after_ends_with_130() -> None:
    """Red when the refusal takes the place of the interruption: the database did nothing wrong."""
    ended, plain = run("shop", "interrupted in mid-statement"), run("shop", "interrupted")

    assert ended.exit_code == 130
    assert ended.stderr.strip() == plain.stderr.strip() == ""


def test_a_defect_is_not_dressed_up_as_an_error_of_the_user() -> None:
    assert isinstance(run("shop", "broken").exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("es", "Error: el trabajo 7 no existe aquí"),
        ("pt", "Erro: o trabalho 7 não existe aqui"),
        ("de", "Error: job 7 does not exist here"),
    ],
)
def test_errors_from_below_are_said_in_the_readers_language(language: str, said: str) -> None:
    ended = run("shop", "missing", "--lang", language)

    assert ended.exit_code == Exit.NOT_FOUND
    assert said in ended.stderr


def test_one_run_leaves_no_language_to_the_next() -> None:
    run("shop", "missing", "--lang", "es")

    assert "does not exist" in run("shop", "missing").stderr
    assert "Usage:" in run("shop", "--help").stdout


def test_help_is_said_in_each_language_again_and_again() -> None:
    for _ in range(2):
        assert "Muestra esta ayuda" in run("jobs", "list", "--help", RELEVO_LANG="es").stdout
        assert "Mostra esta ajuda" in run("jobs", "list", "--help", RELEVO_LANG="pt").stdout
        assert "Show this message" in run("jobs", "list", "--help").stdout


def test_the_help_of_the_worker_shows_what_a_worker_does_by_itself() -> None:
    usual = WorkerSettings("")
    shown = " ".join(run("worker", "--help").stdout.split())

    for span in (usual.lease, usual.poll, usual.grace):
        assert f"[default: {write_duration(span)}]" in shown
    assert f"[default: {usual.concurrency}; x>=1]" in shown
