"""The script for an administrator does what a migration does, and says so in the ledger."""

import psycopg
import pytest
from migrating import a_line, edit, psql, rows, shape

from relevo.db.migrate import ENGINE, Line, migrate, migration_script
from relevo.db.migrate.session import LOCK_KEY

pytestmark = pytest.mark.core

EVALUATIONS = Line("evaluations", "relevo_apps.evaluations.migrations")
LINES = [ENGINE, EVALUATIONS]

FIRST = "CREATE SCHEMA shop;\nCREATE TABLE shop.orders (id integer PRIMARY KEY, total integer);"
SECOND = "-- transaction: none\nCREATE INDEX CONCURRENTLY orders_total ON shop.orders (total);"


def test_after_the_script_a_migration_finds_nothing_to_do(empty_database):
    run = psql(empty_database, migration_script(LINES))

    assert (run.returncode, run.stderr) == (0, "")
    assert migrate(empty_database, LINES) == []


def test_script_and_migration_make_the_same_database(empty_database, another_database):
    psql(empty_database, migration_script(LINES, environment="here"))
    migrate(another_database, LINES, environment="here")

    assert shape(empty_database) == shape(another_database)


def test_the_script_may_be_run_again(empty_database):
    psql(empty_database, migration_script(LINES))
    before = shape(empty_database)

    run = psql(empty_database, migration_script(LINES))

    assert (run.returncode, run.stderr) == (0, "")
    assert shape(empty_database) == before


def test_the_script_goes_on_where_a_migration_stopped(empty_database, tmp_path):
    shop = a_line(tmp_path, {"0001_orders.sql": FIRST})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0002_index.sql", SECOND)

    run = psql(empty_database, migration_script([shop]))

    assert (run.returncode, run.stderr) == (0, "")
    assert migrate(empty_database, [shop]) == []


def test_the_script_builds_an_invalid_index_again(empty_database, tmp_path):
    shop = a_line(tmp_path, {"0001_orders.sql": FIRST})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0002_index.sql", SECOND)
    with psycopg.connect(empty_database) as connection:
        connection.execute("CREATE INDEX orders_total ON shop.orders (id)")
        connection.execute(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'shop.orders_total'::regclass"
        )

    psql(empty_database, migration_script([shop]))

    definition = rows(empty_database, "SELECT pg_get_indexdef('shop.orders_total'::regclass)")[0][0]
    assert definition.endswith("(total)")


def test_the_script_gives_everything_to_the_owner_that_psql_is_told(empty_database, a_login):
    run = psql(empty_database, migration_script(LINES), owner=a_login.name)

    assert (run.returncode, run.stderr) == (0, "")
    assert migrate(a_login.on(empty_database), LINES) == []
    owners = (
        "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE oid >= 16384 AND relkind = 'r'"
    )
    assert rows(empty_database, owners) == [(a_login.name,)]
    worker = a_login.on(empty_database, options="-c role=relevo_worker")
    assert rows(worker, "SELECT current_user::text") == [("relevo_worker",)]


@pytest.mark.parametrize("environment", ["it's", "back\\slash", "a b", '"quoted"', ":name", "@at@"])
def test_the_marker_of_the_environment_arrives_as_it_is(empty_database, environment):
    psql(empty_database, migration_script([], environment=environment))

    pinned = rows(empty_database, "SELECT environment FROM relevo.installation")
    assert pinned == [(environment,)]


def test_the_administrator_may_name_another_environment(empty_database):
    psql(empty_database, migration_script([], environment="printed"), environment="told")

    assert rows(empty_database, "SELECT environment FROM relevo.installation") == [("told",)]


def test_the_script_refuses_a_database_that_it_does_not_know(empty_database, tmp_path):
    migrate(empty_database, [a_line(tmp_path, {"0001_a.sql": FIRST, "0002_b.sql": "SELECT 1"})])
    older = a_line(tmp_path, {"0001_a.sql": FIRST})
    before = shape(empty_database)

    run = psql(empty_database, migration_script([older]))

    assert run.returncode == 3
    assert "newer release" in run.stderr
    assert shape(empty_database) == before


def test_the_script_does_not_run_beside_a_migration(empty_database):
    with psycopg.connect(empty_database) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK_KEY])
        run = psql(empty_database, migration_script([]))

    assert run.returncode == 3
    assert "another migration" in run.stderr
    assert rows(empty_database, "SELECT to_regnamespace('relevo')") == [(None,)]
