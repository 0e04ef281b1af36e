"""How the command ends: exit codes, sentences instead of tracebacks, and no secrets."""

import importlib
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from real_command import COMMAND, PATIENCE, Command

from factories import a_job
from relevo.cli.errors import DatabaseUnreachable
from relevo.cli.exits import Exit, exit_of, register_exit, registered_exits
from relevo.db.migrate import MigrationError
from relevo.engine.jobs.errors import JobNotFound
from relevo.errors import RelevoError
from relevo.loops.settings import EXIT_HUNG
from workers import wait_until

SECRET = "s3cr3t-p4ss"  # noqa: S105 -- what no output may repeat


def test_the_exit_codes_are_those_that_scripts_rely_on() -> None:
    assert {code.name: code.value for code in Exit} == {
        "OK": 0,
        "ERROR": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "CONFLICT": 4,
        "CHECK_FAILED": 5,
        "BLOCKED": 6,
        "UNREACHABLE": 69,
        "HUNG": 70,
        "INTERRUPTED": 130,
    }
    assert Exit.HUNG == EXIT_HUNG


def test_every_class_in_the_table_exists() -> None:
    importlib.import_module("relevo_apps.main").evaluations.register_exits()

    for name in registered_exits():
        module, _dot, attribute = name.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), attribute), Exception), name


def test_an_error_ends_as_its_nearest_registered_parent_does() -> None:
    class Parent(RelevoError):
        template = "parent"

    class Child(Parent):
        template = "child"

    class Other(Child):
        template = "other"

    register_exit(Parent, Exit.CONFLICT)
    register_exit(Other, Exit.BLOCKED)

    assert exit_of(Child()) is Exit.CONFLICT
    assert exit_of(Other()) is Exit.BLOCKED
    assert exit_of(MigrationError()) is Exit.ERROR
    assert exit_of(JobNotFound(id=1)) is Exit.NOT_FOUND
    assert exit_of(DatabaseUnreachable(dsn="", reason="")) is Exit.UNREACHABLE


@pytest.mark.parametrize(
    "words", [("jobs", "list"), ("worker",), ("db", "migrate"), ("db", "init"), ("doctor",)]
)
def test_a_database_that_is_away_ends_with_69_and_shows_no_password(
    nowhere: Command, words: tuple[str, ...]
) -> None:
    answer = nowhere(*words, "--dsn", f"postgresql://ana:{SECRET}@127.0.0.1:1/hr")

    assert answer.returncode == 69
    assert "ana@127.0.0.1:1/hr" in answer.stderr
    assert SECRET not in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("variable", ["RELEVO_DSN", "DATABASE_URL", "RELEVO_LISTEN_DSN"])
def test_a_connection_string_without_meaning_is_not_repeated(
    nowhere: Command, variable: str
) -> None:
    nowhere.variables[variable] = f"{SECRET} is no dsn"

    answer = nowhere("doctor")

    assert answer.returncode == 2
    assert variable in answer.stderr
    assert SECRET not in answer.stdout + answer.stderr


@pytest.mark.parametrize("password", ["one@two", "one/two", "one?two@three", "one:two@three", "@"])
def test_a_password_with_a_bare_mark_is_no_part_of_any_output(
    nowhere: Command, password: str
) -> None:
    for words in (("jobs", "list"), ("db", "init"), ("doctor",), ("demo",)):
        answer = nowhere(*words, "--dsn", f"postgresql://ana:{password}@127.0.0.1:1/hr")

        assert answer.returncode == 2
        assert "percent-encode" in answer.stderr
        said = answer.stdout + answer.stderr.replace("percent-encode @ : / ? #", "")
        for piece in ("one", "two", "three"):
            assert piece not in said


def test_a_connect_timeout_that_is_no_number_is_a_bad_connection_string(nowhere: Command) -> None:
    answer = nowhere("jobs", "list", "--dsn", "postgresql://ana@127.0.0.1:1/hr?connect_timeout=x")

    assert answer.returncode == 2
    assert "--dsn cannot be read" in answer.stderr


def test_an_encoded_password_and_an_address_in_the_query_are_readable(nowhere: Command) -> None:
    for dsn in (
        "postgresql://ana:one%40two%2F@127.0.0.1:1/hr",
        "postgresql://ana:one?two@127.0.0.1:1/hr",
        "postgresql:///hr?host=%40abstract&port=1",
        "postgresql://ana@127.0.0.1:1,127.0.0.1:1/hr?application_name=a@b",
        "host=127.0.0.1 port=1 password=one@two",
    ):
        assert nowhere("jobs", "list", "--dsn", dsn).returncode == 69, dsn


@pytest.mark.parametrize("words", [("jobs", "list"), ("worker",), ("demo",)])
def test_an_empty_connection_string_takes_no_other_database(
    nowhere: Command, words: tuple[str, ...]
) -> None:
    by_flag = nowhere(*words, "--dsn", "")
    nowhere.variables["RELEVO_DSN"] = ""
    by_variable = nowhere(*words)

    assert (by_flag.returncode, by_variable.returncode) == (2, 2)
    assert "--dsn is empty" in by_flag.stderr
    assert "RELEVO_DSN is empty" in by_variable.stderr
    assert not (nowhere.home / "postgresql").exists()


def test_a_database_that_is_missing_is_created_with_init(nowhere: Command, server: str) -> None:
    answer = nowhere("jobs", "list", "--dsn", make_conninfo(server, dbname="nothing_like_it"))

    assert answer.returncode == 69
    assert "create it with `relevo db init`" in answer.stderr


def test_a_wrong_password_is_an_unreachable_database(nowhere: Command, server: str) -> None:
    dsn = make_conninfo(server, user="nobody_of_that_name", password=SECRET)

    answer = nowhere("jobs", "list", "--dsn", dsn)

    assert answer.returncode == 69
    assert SECRET not in answer.stdout + answer.stderr


def test_the_flag_wins_over_the_variables_in_their_order(
    nowhere: Command, database: str, empty_database: str
) -> None:
    nowhere.variables["DATABASE_URL"] = "postgresql://127.0.0.1:1/away"
    nowhere.variables["RELEVO_DSN"] = empty_database

    by_variable = nowhere("db", "status", "-o", "json")
    by_flag = nowhere("db", "status", "-o", "json", "--dsn", database)
    before_the_name = nowhere("--dsn", database, "-o", "json", "db", "status")

    assert json.loads(by_variable.stdout)["current"] is False
    assert json.loads(by_flag.stdout)["current"] is True
    assert by_flag.stdout == before_the_name.stdout


def test_a_url_that_names_a_driver_is_understood(nowhere: Command) -> None:
    nowhere.variables["DATABASE_URL"] = f"postgresql+psycopg://ana:{SECRET}@127.0.0.1:1/hr"

    answer = nowhere("db", "status")

    assert answer.returncode == 69
    assert "ana@127.0.0.1:1/hr" in answer.stderr


def test_sigterm_takes_the_embedded_server_along(nowhere: Command) -> None:
    root = nowhere.home / "postgresql"
    with nowhere.started("up") as process:
        # Whatever it is doing when the signal comes, nothing is left behind.
        wait_until((root / "data" / "postmaster.pid").exists)
        process.terminate()
        code = process.wait(PATIENCE)

    assert code in {0, 128 + signal.SIGTERM}
    assert not (root / "data" / "postmaster.pid").exists()


def test_a_login_that_is_no_member_of_the_role_is_told_so(
    nowhere: Command, database: str, server: str
) -> None:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE relevo_cli_stranger LOGIN")
        try:
            dsn = make_conninfo(database, user="relevo_cli_stranger")
            answer = nowhere("jobs", "list", "--dsn", dsn)
        finally:
            connection.execute("DROP ROLE relevo_cli_stranger")

    assert answer.returncode == 1
    assert "cannot work as relevo_web" in answer.stderr


def test_debug_shows_where_an_error_came_from(nowhere: Command) -> None:
    answer = nowhere("jobs", "list", "--debug", "--dsn", "postgresql://127.0.0.1:1/away")

    assert "Traceback" in answer.stderr
    assert answer.returncode == 69


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nothing",), "No such command"),
        (("jobs", "list", "--nothing"), "No such option"),
        (("jobs", "list", "--state", "sleeping"), "sleeping"),
        (("worker", "--poll", "0"), "is no duration"),
        (("worker", "--poll", "soon"), "is no duration"),
        (("worker", "--poll", "9ms"), "pass 10ms or more"),
        (("worker", "--lease", "500ms"), "pass 1s or more"),
        (("top", "--every", "499ms"), "pass 500ms or more"),
        (("worker", "--concurrency", "0"), "concurrency"),
        (("worker", "--concurrency", "many"), "'many' is no whole number"),
        (("limits", "set", "queue", "mail", "x"), "'x' is no whole number"),
        (("jobs", "show", "first"), "'first' is no whole number"),
        (("jobs", "lst"), "Did you mean 'list'?"),
        (("wroker",), "Did you mean 'worker'?"),
        (("-o", "json", "worker"), "leave -o json out"),
        (("-o", "json", "db", "sql"), "leave -o json out"),
        (("db", "-o", "json", "sql"), "leave -o json out"),
    ],
)
def test_wrong_arguments_end_with_two(nowhere: Command, words: tuple[str, ...], said: str) -> None:
    answer = nowhere(*words)

    assert said in answer.stderr
    assert answer.returncode == 2


@pytest.mark.parametrize(
    ("language", "usage", "error"), [("es", "Uso:", "No existe"), ("pt", "Uso:", "Não existe")]
)
def test_even_a_wrong_argument_is_answered_in_the_readers_language(
    nowhere: Command, language: str, usage: str, error: str
) -> None:
    nowhere.variables["LANG"] = f"{language}.UTF-8"

    answer = nowhere("jobs", "nothing")

    assert usage in answer.stderr
    assert error in answer.stderr


@pytest.mark.parametrize("words", [(), ("worker",), ("jobs",), ("jobs", "list"), ("db", "sql")])
def test_h_is_help_everywhere(nowhere: Command, words: tuple[str, ...]) -> None:
    short, long = nowhere(*words, "-h"), nowhere(*words, "--help")

    assert short.returncode == 0
    assert short.stdout == long.stdout
    assert "-h, --help" in short.stdout


def test_an_encoding_without_accents_is_no_error(nowhere: Command) -> None:
    nowhere.variables |= {"PYTHONIOENCODING": "ascii", "RELEVO_LANG": "es"}

    answer = nowhere("--help")

    assert answer.returncode == 0
    assert "Muestra" in answer.stdout


def test_help_imports_none_of_the_heavy_libraries(nowhere: Command) -> None:
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", COMMAND, "--help"],
        env=nowhere.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    heavy = {"sqlalchemy", "django", "asyncpg", "rich", "babel", "aiosmtplib", "aiosmtpd"}
    assert "click" in imported
    assert imported & heavy == set()
    assert not any(name.startswith("relevo.cli.doctor") for name in imported)


def test_a_terminal_gets_a_table(relevo: Command, connection: psycopg.Connection) -> None:
    a_job(connection)
    connection.commit()
    relevo.variables |= {"TERM": "xterm-256color", "COLUMNS": "120"}

    said = on_a_terminal(relevo, "jobs", "list")

    assert "────" in said
    assert "test.work" in said


def test_no_color_is_respected_on_a_terminal(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection, state="failed", last_error="boom")
    connection.commit()
    relevo.variables |= {"TERM": "xterm-256color", "COLUMNS": "120", "NO_COLOR": "1"}

    said = on_a_terminal(relevo, "jobs", "list")

    # Bold stays; colours are codes from 30 to 49 and from 90 to 107.
    assert re.search(r"\x1b\[[0-9;]*\b(3[0-9]|4[0-9]|9[0-7]|10[0-7])\b[0-9;]*m", said) is None


def test_the_stream_of_data_is_empty_when_something_failed(nowhere: Command) -> None:
    answer = nowhere("jobs", "list", "-o", "json", "--dsn", "postgresql://127.0.0.1:1/away")

    assert answer.stdout == ""


def test_a_reader_that_leaves_early_is_no_error(
    relevo: Command, connection: psycopg.Connection
) -> None:
    a_job(connection)
    connection.commit()
    read, write = os.pipe()
    os.close(read)

    answer = subprocess.run(
        [COMMAND, "jobs", "list"],
        env=relevo.environment,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)

    assert "Traceback" not in answer.stderr
    assert "Exception ignored" not in answer.stderr


def on_a_terminal(command: Command, *words: str) -> str:
    """What the command writes to a terminal."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *words], env=command.environment, stdout=follower, stderr=subprocess.DEVNULL
    )
    os.close(follower)
    said = b""
    with os.fdopen(leader, "rb", buffering=0) as terminal:
        while True:
            try:
                piece = terminal.read(4096)
            except OSError:  # Linux says so when the last writer has closed it.
                break
            if not piece:
                break
            said += piece
    assert process.wait(60) == 0
    return said.decode()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_it\n", "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("raise SystemExit(0)\n", "SystemExit"),
        ("def (:\n", "SyntaxError"),
    ],
)
def test_an_application_that_fails_to_import_is_told_with_its_place(
    relevo: Command, text: str, said: str
) -> None:
    relevo.variables["PYTHONPATH"] = str(relevo.home)
    (relevo.home / "broken_app.py").write_text(text, encoding="utf-8")

    answer = relevo("worker", "--drain", "--app", "broken_app:app")

    assert answer.returncode == 1
    assert "broken_app cannot be imported" in answer.stderr
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("target", ["/dev/full", None])
def test_an_output_that_cannot_be_written_is_a_sentence(
    relevo: Command, connection: psycopg.Connection, target: str | None
) -> None:
    a_job(connection)
    connection.commit()
    where = ">&-" if target is None else f"> {target}"

    answer = subprocess.run(
        ["bash", "-c", f"{shlex.quote(str(COMMAND))} jobs list {where}"],
        env=relevo.environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert "Traceback" not in answer.stderr
    assert "Exception ignored" not in answer.stderr
    if target:
        assert answer.returncode == 1
        assert "the system refused" in answer.stderr


def test_a_language_that_nobody_speaks_here_is_noted(nowhere: Command) -> None:
    answer = nowhere("--lang", "de", "--help")

    assert answer.returncode == 0
    assert "does not speak de" in answer.stderr
    assert nowhere("--lang", "pt-BR", "--help").stderr == ""
