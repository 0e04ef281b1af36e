"""`relevo cycle` on drafts: every way out that a finding names is a command that does it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import psycopg
import pytest
from real_command import Command

PEOPLE = """id,name,email,manager
1,Ana Álvarez,ana@example.com,
2,Bruno Díaz,bruno@example.com,1
3,Célia Nóbrega,celia@example.com,1
4,Dan Young,dan@example.com,2
"""
NAME = "Ana's 2nd cycle"


@pytest.fixture
def staffed(relevo: Command, home: Path) -> Command:
    file = home / "people.csv"
    file.write_text(PEOPLE, encoding="utf-8")
    assert relevo("people", "import", str(file)).returncode == 0
    return relevo


def answer(command: Command, *words: str, code: int = 0) -> Any:
    ended = command(*words, "-o", "json")
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout)


def query(dsn: str, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


def test_people_leave_and_enter_a_draft_and_the_evaluations_follow(
    staffed: Command, database: str
) -> None:
    answer(staffed, "cycle", "create", "2025", "--participants", "1,2,3")

    changed = answer(staffed, "cycle", "participants", "2025", "--add", "4", "--remove", "3")
    generated = answer(staffed, "cycle", "generate", "2025")

    assert (changed["added"], changed["removed"]) == (1, 1)
    # About 4: by themself, by 2, and by 4 about 2; from 3 about 1 is asked anew for nobody.
    assert generated["created"] > 0
    assert query(database, "SELECT count(*) FROM evaluations.participants") == [(3,)]
    assert (
        "relevo cycle generate 2025"
        in staffed("cycle", "participants", "2025", "--add", "all").stderr
    )


def test_a_stranger_among_those_named_changes_nothing(staffed: Command, database: str) -> None:
    answer(staffed, "cycle", "create", "2025", "--participants", "1,2")

    ended = staffed("cycle", "participants", "2025", "--add", "99", "--remove", "1")

    assert ended.returncode == 3
    assert query(database, "SELECT count(*) FROM evaluations.participants") == [(2,)]


@pytest.mark.parametrize("words", [(), ("--add", ""), ("--remove", "all"), ("--add", "no.txt")])
def test_participants_need_somebody_named(staffed: Command, words: tuple[str, ...]) -> None:
    answer(staffed, "cycle", "create", "2025")

    assert staffed("cycle", "participants", "2025", *words).returncode == 2


def test_peers_are_asked_later_as_well(staffed: Command, home: Path) -> None:
    answer(staffed, "cycle", "create", "2025", "--rules", "self,peer")
    file = home / "peers.csv"
    file.write_text("participant,peer\n2,3\n", encoding="utf-8")

    assert answer(staffed, "cycle", "peers", "2025", str(file))["added"] == 1


def test_a_deleted_draft_leaves_the_list_frees_its_name_and_stays_on_record(
    staffed: Command, database: str
) -> None:
    answer(staffed, "cycle", "create", "2025")

    deleted = answer(staffed, "cycle", "delete", "2025", "--actor", "ana")
    answer(staffed, "cycle", "create", "2025")

    assert deleted["cycle"]["state"] == "cancelled"
    assert [each["name"] for each in answer(staffed, "cycle", "list")["cycles"]] == ["2025"]
    assert query(
        database,
        "SELECT actor, details ->> 'name' FROM evaluations.cycle_events WHERE what = 'deleted'",
    ) == [("ana", "2025")]


def test_only_a_draft_is_deleted(staffed: Command) -> None:
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025")

    ended = staffed("cycle", "delete", "2025")

    assert ended.returncode == 4
    assert "cycle '2025' is active" in ended.stderr


def test_the_preflight_of_an_active_cycle_says_why_and_shows_no_zeros(staffed: Command) -> None:
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025")

    ended = staffed("cycle", "preflight", "2025")

    assert ended.returncode == 4
    assert "cycle '2025' is active, and only a draft can be" in ended.stderr
    assert "notifications" not in ended.stdout
    assert " 0" not in ended.stdout


@pytest.mark.parametrize("language", ["en", "es", "pt"])
def test_every_command_that_is_suggested_can_be_pasted(staffed: Command, language: str) -> None:
    say = ("--lang", language)
    seen: list[str] = [staffed("cycle", "create", NAME, "--participants", "1", *say).stderr]
    answer(staffed, "cycle", "participants", NAME, "--remove", "1")
    seen.append(staffed("cycle", "participants", NAME, "--add", "2", *say).stderr)
    blocked = staffed("cycle", "preflight", NAME, *say).stdout
    answer(staffed, "cycle", "generate", NAME)
    seen.append(staffed("cycle", "preflight", NAME, *say).stderr)
    seen.append(staffed("cycle", "activate", NAME, *say).stderr)
    suggested = [found for text in seen for found in re.findall(r"relevo cycle .*", text)]
    suggested += re.findall(r"`(relevo cycle .*?)`", blocked)

    assert len(suggested) >= 5
    for line in suggested:
        assert shlex.split(line)[3] == NAME, line


def test_a_blocked_activation_says_its_findings_to_programs(
    staffed: Command, database: str
) -> None:
    answer(staffed, "cycle", "create", "2025")
    query(database, "UPDATE evaluations.people SET email = NULL WHERE external_id = '3'")

    refused = answer(staffed, "cycle", "activate", "2025", code=6)

    assert [each["code"] for each in refused["blocked"]] == ["evaluator_without_email"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("x" * 121,), 2, "at most 120"),
        (("ANNUAL",), 4, "'annual' already exists"),
        (("new", "--participants", ""), 2, "nobody is named"),
        (("new", "--participants", "nofile.txt"), 2, "there is no file nofile.txt"),
        (("new", "--rules", "peer"), 2, "--peers"),
    ],
)
def test_what_makes_no_cycle_is_refused(
    staffed: Command, words: tuple[str, ...], code: int, said: str
) -> None:
    answer(staffed, "cycle", "create", "annual")

    ended = staffed("cycle", "create", *words)

    assert ended.returncode == code
    assert said in ended.stderr
