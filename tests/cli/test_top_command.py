"""`relevo top`: one look for people and machines, and the live view on a terminal."""

import json
import re
import signal
from pathlib import Path

import psycopg
import pytest
from live_screen import HIDE, SHOW, live, plain
from real_command import Command

from factories import a_job, a_worker, some_jobs
from relevo.cli.database import Database
from relevo.cli.top import ROWS, Watcher
from relevo.cli.top_screen import _share
from relevo.cli.top_views import say_age
from workers import query, unreachable

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"


@pytest.fixture
def busy(relevo: Command, connection: psycopg.Connection) -> Command:
    worker = a_worker(connection, queues=("mail",))
    some_jobs(connection, 3, queue="mail")
    some_jobs(connection, 2, queue="mail", state="running", worker=worker, attempt=1)
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, reason)"
        " VALUES ('kind', 'mail.receipt', 'too many')"
    )
    connection.execute(
        "INSERT INTO relevo.limits (scope, name, measure, most)"
        " VALUES ('queue', 'mail', 'running', 9)"
    )
    connection.commit()
    return relevo


def test_one_look_is_tables_on_a_pipe(busy: Command) -> None:
    said = busy("top", "--once")

    rows = [line.split() for line in said.stdout.splitlines()]
    assert said.returncode == 0, said.stderr
    assert said.stderr == ""
    assert rows[0][:6] == ["3", "due", "·", "2", "running", "·"]
    assert ["mail", "3", "0", "0", "2"] in [row[:5] for row in rows]
    assert any(row[1:3] == ["mail", "working"] and row[3][:2] == "2/" for row in rows if row)
    assert ["kind", "mail.receipt", "it", "is", "resumed", "too", "many"] in rows
    assert ["queue", "mail", "9", "at", "once", "0"] in rows


def test_without_a_terminal_there_is_one_look_and_a_note(busy: Command) -> None:
    said = busy("top")

    assert said.returncode == 0
    assert said.stderr == "this is no terminal, so there is one look and no more\n"
    assert "mail" in said.stdout


def test_a_machine_gets_one_document_with_the_keys_of_the_reference(busy: Command) -> None:
    section = PAGE.read_text(encoding="utf-8").split("\n### top\n")[1].split("\n### ")[0]
    named = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))

    said = json.loads(busy("top", "-o", "json").stdout)

    lists = {name for name, found in said.items() if isinstance(found, list)}
    assert lists == {"queues", "workers", "pauses", "limits"}
    assert {name: set(re.findall(r"`(\w+)`", named[name])) for name in lists} == {
        name: set(said[name][0]) for name in lists
    }
    assert set(named) - lists == set(said) - lists
    assert (said["queues"][0]["due"], said["queues"][0]["running"]) == (3, 2)
    assert said["workers"][0]["running"] == 2


def test_a_look_changes_nothing_and_needs_no_owner(
    busy: Command, connection: psycopg.Connection
) -> None:
    """It works as the role of workers, whatever it is that logs in."""
    before = query(busy.variables["RELEVO_DSN"], "SELECT xmin::text FROM relevo.workers")

    busy("top", "--once")

    assert query(busy.variables["RELEVO_DSN"], "SELECT xmin::text FROM relevo.workers") == before


def test_the_live_view_follows_what_happens_and_q_ends_it(
    busy: Command, connection: psycopg.Connection
) -> None:
    with live(busy, "top", "--every", "500ms") as screen:
        screen.until("3 due · 2 running")
        some_jobs(connection, 4, queue="mail")
        connection.commit()
        screen.until("7 due · 2 running")
        drawn = screen.until("q ends")
        screen.type(b"q")
        code = screen.wait()
        given_back = screen.is_as_before()

    assert code == 0
    assert "mail.receipt" in drawn
    assert screen.raw.count(HIDE) == screen.raw.count(SHOW) == 1
    assert given_back


def test_q_is_heard_in_the_middle_of_a_long_wait(busy: Command) -> None:
    with live(busy, "top", "--every", "1h") as screen:
        screen.until("q ends")
        screen.type(b"x")
        screen.type(b"q")

        assert screen.wait() == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_signal_gives_the_terminal_back(busy: Command, number: signal.Signals, code: int) -> None:
    with live(busy, "top") as screen:
        screen.until("q ends")
        screen.process.send_signal(number)
        ended = screen.wait()
        given_back = screen.is_as_before()

    assert ended == code
    assert screen.raw.count(SHOW) == 1
    assert given_back


def test_a_database_that_goes_away_and_comes_back_is_told_and_found_again(
    busy: Command, server: str, database: str
) -> None:
    with live(busy, "top", "--every", "500ms") as screen:
        screen.until("q ends")
        with unreachable(server, database):
            drawn = screen.until("trying again")
        screen.until("q ends")
        screen.type(b"q")
        code = screen.wait()

    assert code == 0
    # What was last seen stays on the screen.
    assert "mail" in drawn


def test_a_database_that_is_away_from_the_beginning_is_refused_as_ever(nowhere: Command) -> None:
    nowhere.variables["RELEVO_DSN"] = "postgresql://127.0.0.1:1/away"

    with live(nowhere, "top") as screen:
        code = screen.wait()

    assert code == 69
    assert HIDE not in screen.raw


def test_a_terminal_that_cannot_move_its_cursor_gets_one_look(busy: Command) -> None:
    busy.variables["TERM"] = "dumb"

    with live(busy, "top") as screen:
        code = screen.wait()

    assert code == 0
    assert HIDE not in screen.raw
    assert "3 due · 2 running" in plain(screen.raw)


def test_a_part_that_takes_too_long_is_missing_and_the_next_look_reads_less(
    busy: Command, database: str
) -> None:
    """Red when one slow statement hides everything: a view is wanted most when something hangs."""
    with psycopg.connect(database) as holder, Watcher(Database(database), 5.0) as watcher:
        holder.execute("LOCK TABLE relevo.jobs IN ACCESS EXCLUSIVE MODE")
        with live(busy, "top", "--every", "500ms") as screen:
            seen = watcher.look()
            drawn = screen.until("took longer than two seconds")
            holder.rollback()
            again = watcher.look()
            screen.until("q ends")

    assert (seen.has_live, seen.has_rates, seen.limits) == (False, False, None)
    assert [each.name for each in seen.workers] == [each.name for each in again.workers]
    assert watcher._rows == ROWS // 10
    assert (again.has_live, [each.due for each in again.queues]) == (True, [3])
    assert "? due · ? running · 1 worker" in drawn
    assert "mail.receipt" in drawn


def test_rates_of_a_flood_are_counted_over_a_shorter_time(
    connection: psycopg.Connection, database: str
) -> None:
    """Red when the time stays: a flood's rates would only ever be the least that they may be."""
    now = connection.execute("SELECT now() + interval '1 hour'").fetchone()
    some_jobs(
        connection, 50, state="completed", outcome="completed", live=False, finished_at=now[0]
    )
    connection.commit()
    with Watcher(Database(database), 8.0) as watcher:
        watcher._rows = 20
        windows = [watcher.look().window for _ in range(3)]
        watcher._rows = ROWS
        windows += [watcher.look().window for _ in range(3)]

    assert windows == [8.0, 4.0, 2.0, 1.0, 2.0, 4.0]


def test_a_short_screen_shows_the_busiest_and_counts_the_rest(
    relevo: Command, connection: psycopg.Connection
) -> None:
    for number in range(30):
        a_job(connection, queue=f"q{number:02d}")
    some_jobs(connection, 50, queue="q17")
    connection.commit()

    with live(relevo, "top", lines=20) as screen:
        drawn = screen.until("q ends")
        screen.type(b"q")
        screen.wait()

    assert "q17" in drawn
    assert re.search(r"and \d+ more", drawn)
    assert len(plain(screen.raw).splitlines()) <= 60


@pytest.mark.parametrize(
    ("columns", "left_out"), [(120, set()), (80, {"retrying"}), (50, {"retrying", "completed/s"})]
)
def test_a_narrow_screen_keeps_what_matters(
    busy: Command, columns: int, left_out: set[str]
) -> None:
    with live(busy, "top", columns=columns) as screen:
        drawn = screen.until("q ends")
        screen.type(b"q")
        screen.wait()

    wanted = {"queue", "due now", "running", "oldest due", "retrying", "completed/s", "failed/s"}
    assert {word for word in wanted if word not in drawn} == left_out


def test_what_comes_from_rows_moves_no_cursor(
    relevo: Command, connection: psycopg.Connection
) -> None:
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, reason) VALUES ('queue', 'mail', %s)",
        ["\x1b[31mred\x07"],
    )
    connection.commit()

    once = relevo("top", "--once").stdout
    with live(relevo, "top") as screen:
        screen.until("q ends")
        screen.type(b"q")
        screen.wait()

    assert "\x1b" not in once
    assert b"\x1b[31mred" not in screen.raw
    assert b"\\x1b[31mred\\x07" in screen.raw


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("es", ["cola", "listos", "en ejecución", "q termina"]),
        ("pt", ["fila", "prontos", "q encerra"]),
    ],
)
def test_the_live_view_speaks_the_readers_language(
    busy: Command, language: str, words: list[str]
) -> None:
    busy.variables["RELEVO_LANG"] = language

    with live(busy, "top") as screen:
        drawn = screen.until(words[-1])
        screen.type(b"q")
        screen.wait()

    for word in words:
        assert word in drawn


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0s"),
        (9.4, "9.4s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (3599.7, "1h00m"),
        (86400, "1d00h"),
        (1e7, "115d17h"),
    ],
)
def test_a_time_is_said_as_precisely_as_people_care(seconds: float, said: str) -> None:
    assert say_age(seconds) == said


@pytest.mark.parametrize(
    ("wanted", "room", "shares"),
    [([3, 2], 10, [3, 2]), ([30, 2], 10, [8, 2]), ([30, 30], 10, [5, 5]), ([5, 5], 0, [1, 1])],
)
def test_the_lines_of_a_screen_are_shared_fairly(
    wanted: list[int], room: int, shares: list[int]
) -> None:
    assert _share(wanted, room) == shares
