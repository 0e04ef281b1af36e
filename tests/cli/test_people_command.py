"""`relevo people`: a file comes in whole or not at all, and every row says what is wrong."""

import json
import signal
from pathlib import Path

import psycopg
from real_command import Command

from workers import wait_until

GOOD = "id,nombre,correo,jefe\n1,Ana Álvarez,ana@example.com,\n2,Bruno Díaz,bruno@example.com,1\n"
BAD = GOOD + "3,Carla,no address,9\n"


def people(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("SELECT external_id FROM evaluations.people ORDER BY 1")
        return [row[0] for row in rows]


def a_file(home: Path, text: str) -> str:
    file = home / "people.csv"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_a_file_is_imported_once_and_the_second_time_changes_nothing(
    relevo: Command, home: Path, database: str
):
    file = a_file(home, GOOD)

    first = relevo("people", "import", file, "-o", "json")
    second = relevo("people", "import", file, "-o", "json")

    assert (first.returncode, second.returncode) == (0, 0)
    said = json.loads(first.stdout)
    assert (said["created"], said["people"], said["managers"]) == (2, 2, 1)
    assert json.loads(second.stdout)["unchanged"] == 2
    assert people(database) == ["1", "2"]


def test_one_bad_row_refuses_the_file_and_says_line_column_and_what_to_do(
    relevo: Command, home: Path, database: str
):
    ended = relevo("people", "import", a_file(home, BAD), "-o", "json")

    assert ended.returncode == 1
    said = json.loads(ended.stdout)
    assert not said["applied"]
    assert {(each["line"], each["column"], each["code"]) for each in said["problems"]} == {
        (4, "correo", "email_bad"),
        (4, "jefe", "manager_unknown"),
    }
    assert all(each["what"] and each["todo"] for each in said["problems"])
    assert people(database) == []


def test_partial_imports_the_good_rows(relevo: Command, home: Path, database: str):
    ended = relevo("people", "import", a_file(home, BAD), "--partial")

    assert ended.returncode == 0
    assert people(database) == ["1", "2"]
    assert "the e-mail address cannot be written to" in ended.stdout


def test_a_rehearsal_imports_nothing_and_ends_with_6_on_problems(
    relevo: Command, home: Path, database: str
):
    good = relevo("people", "import", a_file(home, GOOD), "--dry-run", "-o", "json")
    bad = relevo("people", "import", a_file(home, BAD), "--dry-run")

    assert (good.returncode, bad.returncode) == (0, 6)
    assert json.loads(good.stdout)["created"] == 2
    assert people(database) == []


def test_problems_are_said_in_spanish_and_portuguese(relevo: Command, home: Path):
    file = a_file(home, BAD)

    spanish = relevo("people", "import", file, "--lang", "es")
    portuguese = relevo("people", "import", file, "--lang", "pt")

    assert "no se puede escribir a esa dirección de correo" in spanish.stdout
    assert "não se pode escrever para esse e-mail" in portuguese.stdout
    assert "No se importó nada" in spanish.stderr


def test_a_file_that_is_not_there_is_a_matter_of_usage(relevo: Command):
    assert relevo("people", "import", "nowhere.csv").returncode == 2


def test_a_tenant_that_nobody_knows_is_not_found(relevo: Command, home: Path):
    ended = relevo("people", "import", a_file(home, GOOD), "--tenant", "nobody")

    assert ended.returncode == 3
    assert "there is no tenant 'nobody'" in ended.stderr


def test_people_of_one_tenant_are_not_those_of_another(relevo: Command, home: Path, database: str):
    with psycopg.connect(database) as connection:
        connection.execute(
            "INSERT INTO relevo.tenants (id, slug, name) VALUES (gen_random_uuid(), 'b', 'B')"
        )

    relevo("people", "import", a_file(home, GOOD), "--tenant", "b")

    said = json.loads(relevo("people", "import", a_file(home, GOOD), "-o", "json").stdout)
    assert (said["created"], said["people"]) == (2, 2)


def test_a_made_up_file_is_the_same_for_the_same_seed_and_comes_in(relevo: Command, home: Path):
    file = home / "made-up.csv"

    relevo("people", "generate", "30", "--seed", "7", "--to", str(file))
    again = relevo("people", "generate", "30", "--seed", "7")
    ended = relevo("people", "import", str(file), "-o", "json")

    assert again.stdout.splitlines() == file.read_text(encoding="utf-8").splitlines()
    assert json.loads(ended.stdout)["created"] == 30


def test_a_header_that_is_missing_is_named_as_the_reader_would(relevo: Command, home: Path):
    ended = relevo("people", "import", a_file(home, "nombre\nAna\n"), "--lang", "es")

    assert ended.returncode == 1
    assert "id de empleado" in " ".join(ended.stdout.split())
    assert "--partial" not in ended.stderr


def test_a_date_of_two_meanings_names_the_option(relevo: Command, home: Path):
    rows = "id,name,hire date\n1,Ana,03/04/2024\n"

    assert "--dates" in relevo("people", "import", a_file(home, rows)).stdout


def test_an_interrupted_import_says_that_nothing_was_written(
    relevo: Command, home: Path, database: str
):
    file = a_file(home, GOOD)
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE evaluations.people IN ACCESS EXCLUSIVE MODE")
        with relevo.started("people", "import", file) as process:
            waiting = "SELECT FROM pg_locks WHERE NOT granted"
            wait_until(lambda: connection.execute(waiting).fetchone() is not None)
            process.send_signal(signal.SIGINT)
            _out, said = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Interrupted: nothing was written" in said
