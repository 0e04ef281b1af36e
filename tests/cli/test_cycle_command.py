"""`relevo cycle`: from a draft to delivered, each refusal with its own exit code."""

import json
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from real_command import Command

from relevo.integrations.smtp.sink import Sink, by_address

PEOPLE = """id,name,email,manager
1,Ana Álvarez,ana@example.com,
2,Bruno Díaz,bruno@example.com,1
3,Célia Nóbrega,celia@example.com,1
4,Dan Young,dan@example.com,2
"""
ADDRESS = "complete the address in the people file and import it with `relevo people import`"


@pytest.fixture
def staffed(relevo: Command, home: Path) -> Command:
    """The command with four people in the database."""
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


def events(dsn: str) -> list[tuple[str, str]]:
    return query(dsn, "SELECT what, actor FROM evaluations.cycle_events ORDER BY id")


def test_a_cycle_is_created_rehearsed_activated_and_followed(staffed: Command, database: str):
    created = answer(staffed, "cycle", "create", "2025", "--due", "2099-03-31")
    rehearsed = answer(staffed, "cycle", "preflight", "2025")
    drafts = answer(staffed, "cycle", "status", "2025")
    activated = answer(staffed, "cycle", "activate", "2025", "--hold", "1h", "--actor", "ana")
    seen = answer(staffed, "cycle", "status", activated["cycle"]["id"], "--people")

    assert created["evaluations"] == {
        "total": 10,
        "self": 4,
        "manager": 3,
        "upward": 3,
        "peer": 0,
    }
    assert created["cycle"]["due_on"] == "2099-03-31"
    assert (rehearsed["is_ready"], rehearsed["notifications"]) == (True, 4)
    assert [each["code"] for each in rehearsed["warnings"]] == ["without_manager"]
    assert drafts["notifications"]["total"] == 0
    assert activated["notifications"] == 4
    assert activated["cycle"]["hold_until"] > activated["cycle"]["activated_at"]
    assert seen["evaluations"]["active"] == 10
    assert seen["notifications"]["pending"] == 4
    assert [each["name"] for each in seen["people"]] == [
        "Ana Álvarez",
        "Bruno Díaz",
        "Célia Nóbrega",
        "Dan Young",
    ]
    assert ("activated", "ana") in events(database)


def test_a_second_activation_ends_with_4_and_is_on_record(staffed: Command, database: str):
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025")

    ended = staffed("cycle", "activate", "2025", "--actor", "bruno")

    assert ended.returncode == 4
    assert "cycle '2025' is active" in ended.stderr
    assert events(database)[-1] == ("activation_refused", "bruno")


def test_what_blocks_ends_with_6_says_what_to_do_and_is_on_record(staffed: Command, database: str):
    answer(staffed, "cycle", "create", "2025")
    query(database, "UPDATE evaluations.people SET email = NULL WHERE external_id = '3'")

    rehearsed = answer(staffed, "cycle", "preflight", "2025", code=6)
    ended = staffed("cycle", "activate", "2025", "--lang", "es")

    assert [(each["code"], each["todo"]) for each in rehearsed["blocked"]] == [
        ("evaluator_without_email", ADDRESS)
    ]
    assert rehearsed["notifications"] == 0
    assert ended.returncode == 6
    assert "Célia Nóbrega tiene que evaluar y no tiene correo electrónico" in ended.stderr
    assert "complete el correo en el archivo e impórtelo" in " ".join(ended.stdout.split())
    assert events(database)[-1][0] == "activation_refused"
    assert query(database, "SELECT count(*) FROM relevo.jobs") == [(0,)]


def test_a_recall_takes_everything_back_within_the_hold(staffed: Command):
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025")

    taken_back = answer(staffed, "cycle", "recall", "2025")
    again = staffed("cycle", "recall", "2025", "--lang", "pt")

    assert (taken_back["cancelled"], taken_back["mailed"]) == (4, [])
    assert taken_back["cycle"]["state"] == "draft"
    assert again.returncode == 4
    assert "o ciclo '2025' está em rascunho" in again.stderr


def test_a_cycle_that_nobody_knows_ends_with_3(staffed: Command):
    for name in ("nowhere", "00000000-0000-0000-0000-00000000000a"):
        for verb in ("preflight", "activate", "recall", "status"):
            assert staffed("cycle", verb, name).returncode == 3, (verb, name)


def test_a_name_that_is_taken_ends_with_4(staffed: Command):
    answer(staffed, "cycle", "create", "2025")

    assert staffed("cycle", "create", "2025").returncode == 4


def test_rules_that_nobody_knows_are_a_matter_of_usage(staffed: Command):
    assert staffed("cycle", "create", "2025", "--rules", "self,boss").returncode == 2


def test_only_those_named_take_part_and_a_wrong_id_creates_nothing(
    staffed: Command, home: Path, database: str
):
    names = home / "participants.txt"
    names.write_text("2\n3\n", encoding="utf-8")

    by_ids = answer(staffed, "cycle", "create", "ids", "--participants", "2,4")
    by_file = answer(staffed, "cycle", "create", "file", "--participants", str(names))
    wrong = staffed("cycle", "create", "wrong", "--participants", "2,99")

    assert (by_ids["participants"], by_file["participants"]) == (2, 2)
    assert wrong.returncode == 3
    assert "99" in wrong.stderr
    assert query(database, "SELECT count(*) FROM evaluations.cycles") == [(2,)]


def test_peers_come_from_a_file(staffed: Command, home: Path):
    peers = home / "peers.csv"
    peers.write_text("participant,peer\n2,3\nceli@example.com,2\n", encoding="utf-8")
    wrong = staffed("cycle", "create", "2025", "--rules", "self,peer", "--peers", str(peers))
    peers.write_text("participant,peer\n2,3\ncelia@example.com,2\n", encoding="utf-8")

    created = answer(
        staffed, "cycle", "create", "2025", "--rules", "self,peer", "--peers", str(peers)
    )

    assert wrong.returncode == 3
    assert created["evaluations"]["peer"] == 2
    assert staffed("cycle", "create", "no peers", "--peers", str(peers)).returncode == 2


def test_the_list_shows_every_cycle_newest_first(staffed: Command):
    answer(staffed, "cycle", "create", "first")
    answer(staffed, "cycle", "create", "second")

    listed = answer(staffed, "cycle", "list")

    assert [each["name"] for each in listed["cycles"]] == ["second", "first"]
    assert "2 ciclos" in staffed("cycle", "list", "--lang", "es").stderr


def test_a_person_who_was_not_reached_is_shown_with_the_servers_words(
    staffed: Command, home: Path, database: str
):
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025", "--hold", "0")
    with Sink(by_address(permanent=["dan@example.com"])) as sink:
        mail = {"RELEVO_SMTP_URL": sink.url, "RELEVO_SMTP_FROM": "hr@example.com"}
        worker = Command(home, {**staffed.variables, **mail})
        ended = worker("worker", "--queue", "mail", "--drain")
    assert ended.returncode == 0, ended.stderr

    seen = answer(staffed, "cycle", "status", "2025")
    shown = staffed("cycle", "status", "2025").stdout

    assert seen["notifications"] == {
        "total": 4,
        "delivered": 3,
        "failed": 1,
        "cancelled": 0,
        "pending": 0,
        "retried": 0,
    }
    assert [(each["name"], each["state"]) for each in seen["troubled"]] == [("Dan Young", "failed")]
    assert "mail refused: 550 5.1.1 no such mailbox here" in shown


def test_the_status_says_why_no_mail_goes_out(staffed: Command, home: Path):
    answer(staffed, "cycle", "create", "2025")
    answer(staffed, "cycle", "activate", "2025", "--hold", "0")
    assert staffed("worker", "--queue", "mail", "--drain").returncode == 0

    seen = answer(staffed, "cycle", "status", "2025")

    assert "RELEVO_SMTP_URL is not set" in seen["mail_paused"]["reason"]
    assert seen["notifications"]["pending"] == 4
    assert "No mail goes out until" in staffed("cycle", "status", "2025").stderr
    spanish = Command(home, {**staffed.variables, "TZ": "UTC"})(
        "cycle", "--lang", "es", "status", "2025"
    ).stderr
    assert " UTC: este worker no puede enviar correo: RELEVO_SMTP_URL " in spanish
    assert "is not set" not in spanish


def test_a_due_day_is_explained_and_one_that_is_past_deserves_a_look(staffed: Command):
    wrong = staffed("cycle", "create", "2025", "--due", "31/03/2025", "--lang", "es")
    answer(staffed, "cycle", "create", "2025", "--due", "2001-03-31")

    seen = answer(staffed, "cycle", "preflight", "2025")

    assert wrong.returncode == 2
    assert "escriba año-mes-día" in wrong.stderr
    assert "due_past" in [each["code"] for each in seen["warnings"]]


def test_options_that_all_share_stand_before_or_after_every_name(staffed: Command):
    said = {
        staffed("-o", "json", "cycle", "list").stdout,
        staffed("cycle", "-o", "json", "list").stdout,
        staffed("cycle", "list", "-o", "json").stdout,
    }

    assert len(said) == 1
    assert staffed("people", "--lang", "es", "generate", "2").returncode == 2


def test_help_names_the_commands_quickly_and_imports_none(relevo: Command):
    began = time.monotonic()
    ended = relevo("--help", "--lang", "es")

    assert ended.returncode == 0
    assert "Prepara, activa y sigue ciclos de evaluación." in ended.stdout
    # Ten times what it takes; importing the engine or a driver would show here.
    assert time.monotonic() - began < 5
