"""A copy of a database is told apart from its original until somebody adopts it."""

import psycopg
import pytest
from migrating import rows
from psycopg.conninfo import conninfo_to_dict

from relevo.db.drivers import run
from relevo.db.identity import Mode, adopt, check_identity, current_environment, read_mode, set_mode
from relevo.db.migrate import migrate

pytestmark = pytest.mark.core


@pytest.fixture
def migrated(empty_database: str) -> str:
    migrate(empty_database, [], environment="production")
    return empty_database


@pytest.mark.parametrize("role", ["relevo_worker", "relevo_web"])
def test_the_original_is_recognised_by_each_role(migrated, role):
    with psycopg.connect(migrated, options=f"-c role={role}") as connection:
        check = run(connection, check_identity("production"))

    assert check.matches
    assert check.differences == []
    assert check.found.database == conninfo_to_dict(migrated)["dbname"]
    assert check.found.system_identifier.isdigit()


def test_another_environment_is_a_copy(migrated):
    with psycopg.connect(migrated) as connection:
        check = run(connection, check_identity("staging"))

    assert not check.matches
    assert check.differences == ["environment"]
    assert (check.pinned.environment, check.found.environment) == ("production", "staging")


def test_a_clone_under_another_name_is_a_copy(database):
    with psycopg.connect(database) as connection:
        check = run(connection, check_identity())

    assert check.differences == ["database"]


def test_another_server_is_a_copy(migrated):
    with psycopg.connect(migrated) as connection:
        connection.execute("UPDATE relevo.installation SET system_identifier = '1'")
        check = run(connection, check_identity("production"))

    assert check.differences == ["system_identifier"]


def test_a_database_that_nobody_pinned_is_not_recognised(migrated):
    with psycopg.connect(migrated) as connection:
        connection.execute("DELETE FROM relevo.installation")
        check = run(connection, check_identity("production"))

    assert check.pinned is None
    assert not check.matches


def test_a_copy_is_recognised_once_it_is_adopted(database):
    with psycopg.connect(database) as connection:
        adopted = run(connection, adopt("staging"))
        connection.commit()
        check = run(connection, check_identity("staging"))

    assert check.matches
    assert check.pinned == adopted


def test_an_adoption_keeps_the_mode_and_says_who_and_when(migrated):
    with psycopg.connect(migrated) as connection:
        before = connection.execute("SELECT adopted_at FROM relevo.installation").fetchone()[0]
        run(connection, set_mode(Mode.MULTI))
        connection.commit()
        run(connection, adopt("staging"))
        after = connection.execute(
            "SELECT mode, adopted_by = session_user, adopted_at > %s FROM relevo.installation",
            [before],
        ).fetchone()

        assert after == ("multi", True, True)
        assert run(connection, read_mode()) is Mode.MULTI


@pytest.mark.parametrize("role", ["relevo_worker", "relevo_web"])
def test_only_the_owner_adopts(migrated, role):
    with (
        psycopg.connect(migrated, options=f"-c role={role}") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        run(connection, adopt("staging"))


def test_a_migration_keeps_what_was_pinned(migrated):
    migrate(migrated, [], environment="staging")

    assert rows(migrated, "SELECT environment FROM relevo.installation") == [("production",)]


def test_a_server_that_hides_its_identifier_is_known_by_name_and_environment(
    empty_database, a_login
):
    with psycopg.connect(empty_database) as connection:
        name = conninfo_to_dict(empty_database)["dbname"]
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {a_login.name}")
    migrate(a_login.on(empty_database), [], environment="production")

    with psycopg.connect(empty_database, options="-c role=relevo_worker") as connection:
        check = run(connection, check_identity("production"))

    assert check.matches
    assert check.found.system_identifier == "hidden"


def test_the_environment_is_named_by_the_operator_or_by_the_host(monkeypatch):
    monkeypatch.delenv("RELEVO_ENVIRONMENT", raising=False)
    by_host = current_environment()
    monkeypatch.setenv("RELEVO_ENVIRONMENT", "production")

    assert by_host
    assert current_environment() == "production"
    assert current_environment("staging") == "staging"
