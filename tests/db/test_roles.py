"""The roles, on a server that has none yet: roles belong to a whole server."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from migrating import a_line, edit, psql, rows, shape
from psycopg.conninfo import make_conninfo

from relevo.db.dsn import PLAN_SETTINGS, with_session
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, Line, MigrationRefused, migrate, migration_script
from relevo.db.roles import RolesMissing

pytestmark = pytest.mark.core

LINES = [ENGINE, Line("evaluations", "relevo_apps.evaluations.migrations")]


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A server of this module's own, so that no other test needs its roles."""
    with tempfile.TemporaryDirectory(prefix="relevo-roles-") as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings={"fsync": "off"}) as embedded:
            yield embedded.dsn()


@pytest.fixture
def bare(own_server: str) -> Iterator[str]:
    """A new database on a server without roles; whoever a test creates is dropped again."""
    with psycopg.connect(own_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE app")
        yield make_conninfo(own_server, dbname="app")
        names = "SELECT quote_ident(datname) FROM pg_database WHERE datname LIKE 'app%'"
        for (name,) in connection.execute(names).fetchall():
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        owned = "SELECT rolname FROM pg_roles WHERE oid >= 16384 ORDER BY rolcreaterole"
        for (name,) in connection.execute(owned).fetchall():
            connection.execute(f"DROP ROLE {name}")


def owner(dsn: str, attributes: str = "") -> str:
    """The DSN of a role that owns the database and is no superuser."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE app_owner LOGIN {attributes}")
        connection.execute("ALTER DATABASE app OWNER TO app_owner")
    return make_conninfo(dsn, user="app_owner")


def roles(dsn: str) -> list[tuple]:
    """The roles that are there, and whether one can log in as them or bypass policies."""
    return rows(
        dsn,
        "SELECT rolname::text, rolcanlogin, rolsuper OR rolbypassrls FROM pg_roles"
        " WHERE rolname IN ('relevo_web', 'relevo_worker') ORDER BY 1",
    )


BOTH = [("relevo_web", False, False), ("relevo_worker", False, False)]


def test_a_migration_creates_both_roles_without_login_or_bypass(bare):
    migrate(bare, LINES)

    assert roles(bare) == BOTH


@pytest.mark.parametrize("role", ["relevo_worker", "relevo_web"])
def test_an_owner_that_may_create_roles_migrates_and_becomes_them(bare, role):
    dsn = owner(bare, "CREATEROLE")
    migrate(dsn, LINES)

    became = with_session(dsn, role=role, settings=PLAN_SETTINGS)

    assert rows(became, "SELECT current_user::text, count(*) FROM relevo.jobs") == [(role, 0)]
    assert migrate(dsn, LINES) == []


def test_an_owner_that_may_not_create_roles_is_stopped_before_anything_is_written(bare):
    dsn = owner(bare)

    with pytest.raises(RolesMissing, match=r"relevo_worker, relevo_web.*app_owner.*relevo db sql"):
        migrate(dsn, LINES)

    assert rows(bare, "SELECT to_regnamespace('relevo')") == [(None,)]
    assert roles(bare) == []


def test_an_owner_migrates_with_roles_that_an_administrator_created(bare):
    dsn = owner(bare)
    separate = rows(bare, "SELECT current_setting('server_version_num')::integer >= 160000")[0][0]
    with psycopg.connect(bare) as connection:
        connection.execute("CREATE ROLE relevo_worker; CREATE ROLE relevo_web")
        option = " WITH SET TRUE, INHERIT FALSE" if separate else ""
        connection.execute(f"GRANT relevo_worker, relevo_web TO app_owner{option}")

    migrate(dsn, LINES)

    became = with_session(dsn, role="relevo_worker", settings=PLAN_SETTINGS)
    assert rows(became, "SELECT current_user::text") == [("relevo_worker",)]


def test_an_owner_migrates_with_roles_that_nobody_granted_to_it(bare):
    """Workers may have logins of their own; then the owner need not become them."""
    dsn = owner(bare)
    with psycopg.connect(bare) as connection:
        connection.execute("CREATE ROLE relevo_worker; CREATE ROLE relevo_web")

    migrate(dsn, LINES)

    assert migrate(dsn, LINES) == []


def test_after_the_administrators_script_such_an_owner_migrates_on(bare):
    dsn = owner(bare)

    run = psql(bare, migration_script(LINES), owner="app_owner")

    assert (run.returncode, run.stderr) == (0, "")
    assert migrate(dsn, LINES) == []
    became = with_session(dsn, role="relevo_web")
    assert rows(became, "SELECT current_user::text") == [("relevo_web",)]


def test_whoever_may_create_roles_runs_the_script_without_being_a_superuser(bare):
    run = psql(owner(bare, "CREATEROLE"), migration_script(LINES))

    assert (run.returncode, run.stderr) == (0, "")
    assert roles(bare) == BOTH


def test_a_migration_that_policies_would_filter_fails_until_it_lifts_them(bare, tmp_path):
    """Mechanism: row_security = off, without which it would silently change no row."""
    dsn = owner(bare, "CREATEROLE NOINHERIT")
    migrate(dsn, LINES)
    add = "INSERT INTO relevo.jobs (tenant_id, kind) SELECT id, 'a' FROM relevo.tenants"
    with psycopg.connect(bare) as connection:
        connection.execute("INSERT INTO relevo.tenants VALUES (gen_random_uuid(), 'b', 'b')")
        connection.execute(add)
    update = "UPDATE relevo.jobs SET actor = 'nobody';"
    line = a_line(tmp_path, {"0001_actor.sql": update})

    with pytest.raises(MigrationRefused, match=r"row-level security policy.*NO FORCE"):
        migrate(dsn, [line])
    table = "ALTER TABLE relevo.jobs"
    lifted = f"{table} NO FORCE ROW LEVEL SECURITY; {update} {table} FORCE ROW LEVEL SECURITY"
    edit(tmp_path, line, "0001_actor.sql", lifted)
    migrate(dsn, [line])

    assert rows(bare, "SELECT count(*) FROM relevo.jobs WHERE actor = 'nobody'") == [(2,)]


def test_an_owner_without_bypass_makes_the_same_database_as_a_superuser(bare, own_server):
    with psycopg.connect(own_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE app_super")
    by_superuser = make_conninfo(own_server, dbname="app_super")
    by_owner = owner(bare, "CREATEROLE")

    migrate(by_superuser, LINES, environment="here")
    migrate(by_owner, LINES, environment="here")

    def without_names(dsn: str) -> list[str]:
        name = rows(dsn, "SELECT current_user::text")[0][0]
        return [str(row).replace(name, "owner") for row in shape(dsn)]

    assert without_names(by_superuser) == without_names(by_owner)


def test_an_owner_without_bypass_is_held_to_one_tenant(bare):
    """Mechanism: FORCE; and from 16 on the owner does not inherit what the worker sees."""
    dsn = owner(bare, "CREATEROLE NOINHERIT")
    migrate(dsn, LINES)
    other = "00000000-0000-0000-0000-00000000000c"
    with psycopg.connect(bare) as connection:
        connection.execute("INSERT INTO relevo.tenants VALUES (%s, 'other', 'other')", [other])
        connection.execute("INSERT INTO relevo.jobs (tenant_id, kind) VALUES (%s, 'a')", [other])

    assert rows(dsn, "SELECT count(*) FROM relevo.jobs") == [(0,)]
    worker = with_session(dsn, role="relevo_worker", settings=PLAN_SETTINGS)
    assert rows(worker, "SELECT count(*) FROM relevo.jobs") == [(1,)]


def test_from_16_on_the_owner_becomes_the_roles_without_inheriting_them(bare):
    dsn = owner(bare, "CREATEROLE")
    migrate(dsn, LINES)
    if rows(dsn, "SELECT current_setting('server_version_num')::integer >= 160000") != [(True,)]:
        pytest.skip("before 16 a member inherits, or not, by its own attribute")

    usage = "SELECT pg_has_role('relevo_worker', 'USAGE'), pg_has_role('relevo_worker', 'SET')"
    assert rows(dsn, usage) == [(False, True)]


def test_a_role_that_appears_while_it_is_being_created_is_taken_as_it_is(bare, own_server):
    """Mechanism: a creation that collides is looked at again, not given up."""
    waiting = (
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE ROLE%'"
    )
    steps: list = []
    worker = threading.Thread(target=lambda: steps.extend(migrate(bare, [ENGINE])))

    with psycopg.connect(own_server) as other:
        other.execute("CREATE ROLE relevo_worker")
        worker.start()
        while not rows(own_server, waiting):
            assert worker.is_alive()
        other.commit()
    worker.join(60)

    assert steps
    assert roles(bare) == BOTH


def test_databases_that_create_the_roles_at_the_same_time_do_not_collide(bare, own_server):
    """Mechanism: the creation is repeated on a collision, since roles belong to the server."""
    names = [f"app_{number}" for number in range(6)]
    with psycopg.connect(own_server, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
    start, failures = threading.Barrier(len(names)), []

    def attempt(name: str) -> None:
        start.wait(30)
        try:
            migrate(make_conninfo(own_server, dbname=name), [ENGINE])
        except Exception as error:  # noqa: BLE001 - the main thread judges it
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == []
    assert roles(bare) == BOTH


def test_a_login_of_the_workers_starts_with_the_plans_settings(bare):
    migrate(bare, LINES)
    with psycopg.connect(bare, autocommit=True) as connection:
        connection.execute("ALTER ROLE relevo_worker LOGIN")

    for name, value in PLAN_SETTINGS.items():
        assert rows(make_conninfo(bare, user="relevo_worker"), f"SHOW {name}") == [(value,)]


def test_a_session_that_becomes_the_worker_starts_with_them_too(bare):
    migrate(bare, LINES)
    became = with_session(bare, role="relevo_worker", settings=PLAN_SETTINGS)

    for name, value in PLAN_SETTINGS.items():
        assert rows(became, f"SHOW {name}") == [(value,)]
