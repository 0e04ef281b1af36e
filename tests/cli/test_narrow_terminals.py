"""On a narrow terminal lines are broken, and nothing is left out."""

from pathlib import Path

import psycopg
import pytest
from real_command import Command
from terminal import letters, on_a_terminal

from factories import a_job
from relevo.cli.printing import share_width

WIDTHS = [80, 40]
PEOPLE = (
    "id,name,email,manager\n"
    "1,Ana Álvarez de la Fuente,ana.alvarez.de.la.fuente@example.com,\n"
    "2,Bruno Díaz,bruno@example.com,1\n"
)
LONG = "Annual evaluation of everybody in the whole of the organisation, second half"


def in_columns(said: str, *words: str) -> None:
    """Every word stands on the screen, broken at most between two lines of its column."""
    for word in words:
        assert word in said or letters(word) in letters(said), (word, said)


@pytest.fixture
def staffed(relevo: Command, home: Path) -> Command:
    file = home / "people.csv"
    file.write_text(PEOPLE, encoding="utf-8")
    assert relevo("people", "import", str(file)).returncode == 0
    return relevo


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_refused_row_shows_its_line_what_and_what_to_do(
    relevo: Command, home: Path, columns: int
) -> None:
    file = home / "people.csv"
    file.write_text(PEOPLE + "3,Carla,no address,9\n", encoding="utf-8")

    said = on_a_terminal(relevo, "people", "import", str(file), columns=columns, code=1)

    in_columns(said, "line", "what", "what to do")
    rows = [line.split() for line in said.splitlines()]
    assert any("4" in row for row in rows)
    for word in ("email", "written", "name@example", "nobody", "reference"):
        assert word in said, said


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_job_shows_every_column(
    relevo: Command, connection: psycopg.Connection, columns: int
) -> None:
    a_job(connection, state="failed", last_error="the mail server said that it is full")
    connection.commit()

    said = on_a_terminal(relevo, "jobs", "list", columns=columns)

    in_columns(said, "id", "state", "failed", "queue", "kind", "test.work", "time", "last error")
    for word in ("mail", "server", "said", "full"):
        assert word in said, said


@pytest.mark.parametrize("columns", WIDTHS)
def test_everybody_of_a_cycle_shows_every_column(staffed: Command, columns: int) -> None:
    assert staffed("cycle", "create", "2025").returncode == 0
    assert staffed("cycle", "activate", "2025").returncode == 0

    said = on_a_terminal(staffed, "cycle", "status", "2025", "--people", columns=columns)

    in_columns(said, "id", "name", "e-mail", "state", "waiting", "starts", "when")
    for word in ("Ana", "Álvarez", "Fuente", "Bruno"):
        assert word in said, said


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_cycle_with_a_long_name_shows_every_column(staffed: Command, columns: int) -> None:
    assert staffed("cycle", "create", LONG, "--due", "2099-03-31").returncode == 0

    said = on_a_terminal(staffed, "cycle", "list", columns=columns)

    in_columns(said, "cycle", "state", "draft", "participants", "evaluations", "2099-03-31")
    for word in ("Annual", "everybody", "second", "half"):
        assert word in said, said


def test_width_is_shared_so_that_short_columns_stay_whole() -> None:
    assert share_width([4, 30, 10], 100) == [4, 30, 10]
    assert share_width([4, 60, 10], 40) == [4, 26, 10]
    assert share_width([4, 60, 50], 60) == [4, 33, 23]
    assert share_width([4, 60, 50], 30) is None
