"""`relevo tenants`, and an installation and an application that disagree about them."""

import json

import psycopg
import pytest
from real_command import Command

from relevo.db.dsn import WEB_ROLE, with_session


@pytest.fixture
def many(relevo: Command) -> Command:
    """The command with an installation for many tenants."""
    assert relevo("db", "init", "--tenants", "multi").returncode == 0
    return relevo


def test_a_tenant_is_added_and_listed(many: Command, database: str) -> None:
    added = many("tenants", "add", "north", "--name", "Norte S.A.", "-o", "json")
    plain = many("tenants", "add", "south", "--lang", "es")
    listed = json.loads(many("tenants", "list", "-o", "json").stdout)
    shown = many("tenants", "list").stdout

    said = json.loads(added.stdout)
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT id::text, name FROM relevo.tenants WHERE slug = 'north'"
        ).fetchall()
    assert rows == [(said["id"], "Norte S.A.")]
    assert "se agregó el tenant south" in plain.stdout
    assert listed["mode"] == "multi"
    assert [(each["slug"], each["name"]) for each in listed["tenants"]] == [
        ("default", "default"),
        ("north", "Norte S.A."),
        ("south", "south"),
    ]
    assert said["id"] in shown


def test_a_slug_that_is_taken_ends_with_4(many: Command) -> None:
    many("tenants", "add", "north")

    ended = many("tenants", "add", "north")

    assert ended.returncode == 4
    assert "there is a tenant 'north' already" in ended.stderr


@pytest.mark.parametrize("words", [("North",), ("--", "-north"), ("n" * 64,), ("n", "--name", " ")])
def test_what_cannot_be_a_tenant_is_a_matter_of_usage(
    many: Command, words: tuple[str, ...]
) -> None:
    ended = many("tenants", "add", *words)

    assert ended.returncode == 2, ended.stderr


def test_an_installation_for_one_tenant_gets_no_second(relevo: Command) -> None:
    ended = relevo("tenants", "add", "north")

    assert ended.returncode == 4
    assert "relevo db init --tenants multi" in ended.stderr


def test_only_the_owner_adds_a_tenant(many: Command, database: str) -> None:
    ended = many("tenants", "add", "north", "--dsn", with_session(database, role=WEB_ROLE))

    assert ended.returncode == 1
    assert "the database did not allow it" in ended.stderr


@pytest.mark.parametrize(("tenants", "said"), [("single", "multi"), ("multi", "single")])
def test_a_worker_refuses_an_installation_with_the_other_mode(
    relevo: Command, tenants: str, said: str
) -> None:
    assert relevo("db", "init", "--tenants", tenants).returncode == 0
    relevo.variables["RELEVO_TENANTS"] = said

    refused = relevo("worker", "--drain")
    relevo.variables["RELEVO_TENANTS"] = tenants
    ran = relevo("worker", "--drain")

    assert refused.returncode == 4
    assert f"set RELEVO_TENANTS={tenants}" in refused.stderr
    assert ran.returncode == 0, ran.stderr


def test_the_environment_says_it_to_init_as_well(relevo: Command) -> None:
    relevo.variables["RELEVO_TENANTS"] = "multi"

    relevo("db", "init")

    assert json.loads(relevo("tenants", "list", "-o", "json").stdout)["mode"] == "multi"
    assert relevo("worker", "--drain").returncode == 0


def test_a_mode_that_nobody_knows_is_a_matter_of_usage(relevo: Command) -> None:
    relevo.variables["RELEVO_TENANTS"] = "several"

    ended = relevo("worker", "--drain")

    assert ended.returncode == 2
    assert "'several'" in ended.stderr
