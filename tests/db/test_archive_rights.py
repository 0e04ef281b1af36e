"""What the archive's functions do with their owner's rights, for whom, and nothing more."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from archiving import months, overdue_jobs
from factories import value
from relevo.db.drivers import run
from relevo.db.dsn import WEB_ROLE, WORKER_ROLE, with_session
from relevo.db.migrate import ENGINE, migrate
from relevo.engine.archive import Setting, drop_month, make_months, switch_archive
from relevo.engine.jobs.prune import prune

pytestmark = pytest.mark.core

# As whoever may create in a schema could write it, to have the owner run it.
TRAPS = """
CREATE SCHEMA traps;
GRANT USAGE ON SCHEMA traps TO PUBLIC;
CREATE FUNCTION traps.format(text, VARIADIC "any") RETURNS text LANGUAGE internal AS 'text_format';
CREATE FUNCTION traps.to_char(timestamptz, text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'GRANT ALL ON relevo.tenants TO PUBLIC';
    RETURN 'archive_trapped';
END $$;
CREATE FUNCTION traps.now() RETURNS timestamptz LANGUAGE sql AS $$
    SELECT '1999-01-01'::timestamptz
$$;
"""


@contextmanager
def working_as(dsn: str, role: str, **settings: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(
        with_session(dsn, role=role, settings=settings), autocommit=True
    ) as session:
        yield session


@pytest.fixture
def ordinary(empty_database: str, template: str, a_login: Any) -> Iterator[str]:
    """The DSN of an owner that is no superuser, of a database that it has migrated."""
    owner = sql.Identifier(a_login.name)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        separate = connection.info.server_version >= 160000
        option = " WITH SET TRUE, INHERIT FALSE" if separate else ""
        connection.execute(sql.SQL("GRANT relevo_worker, relevo_web TO {}" + option).format(owner))
        connection.execute(
            sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(
                sql.Identifier(connection.info.dbname), owner
            )
        )
    dsn = a_login.on(empty_database)
    migrate(dsn, [ENGINE])
    yield dsn
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(owner))


def test_an_owner_that_is_held_to_its_own_policies_archives_like_any_other(
    ordinary: str, empty_database: str
) -> None:
    """Red when a month is made under policies: attaching would read the tenants through them."""
    with psycopg.connect(ordinary, autocommit=True) as owner:
        run(owner, switch_archive(Setting(archiving=True, months=None)))
    with psycopg.connect(empty_database, autocommit=True) as superuser:
        overdue_jobs(superuser, 3, at="2020-05-05 00:00+00")
        with working_as(ordinary, WORKER_ROLE) as worker:
            made = run(worker, make_months())
            with worker.transaction():
                batch = run(worker, prune())
        with psycopg.connect(ordinary, autocommit=True) as owner:
            run(owner, switch_archive(Setting(archiving=True, months=12)))
        with working_as(ordinary, WORKER_ROLE) as worker:
            dropped = run(worker, drop_month())

    assert (made, batch.archived, dropped) == (1, 3, True)


def test_the_web_role_reads_the_archive_and_neither_makes_nor_drops(database: str) -> None:
    calls = ("SELECT relevo.make_archive_month(now())", "SELECT relevo.drop_archive_month()")
    with working_as(database, WEB_ROLE) as web:
        assert value(web, "SELECT count(*) FROM relevo.archive") == 0
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                web.execute(call.encode())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE relevo.archive SET outcome = 'failed'",
        "DELETE FROM relevo.archive",
        "TRUNCATE relevo.archive",
        "INSERT INTO {month} SELECT * FROM relevo.archive",
        "SELECT * FROM {month}",
        "DROP TABLE {month}",
        "ALTER TABLE relevo.archive DETACH PARTITION {month}",
        "CREATE TABLE relevo.mine ()",
        "UPDATE relevo.installation SET archive_months = 1",
    ],
)
def test_the_worker_only_adds_to_the_archive(database: str, change: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        run(owner, switch_archive(Setting(archiving=True, months=None)))
        month = f"relevo.{months(owner)[0]}"

    with (
        working_as(database, WORKER_ROLE) as worker,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        worker.execute(change.format(month=month).encode())


def test_it_drops_no_month_that_is_to_be_kept(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        run(owner, switch_archive(Setting(archiving=True, months=1)))
        before = months(owner)

        with working_as(database, WORKER_ROLE) as worker:
            assert value(worker, "SELECT relevo.drop_archive_month()") is None

        assert months(owner) == before


@pytest.mark.parametrize("wanted", ["1969-12-31", "infinity", "-infinity", "9999-01-01"])
def test_it_makes_no_month_in_which_no_job_can_have_ended(database: str, wanted: str) -> None:
    with (
        working_as(database, WORKER_ROLE) as worker,
        pytest.raises(psycopg.errors.InvalidParameterValue),
    ):
        worker.execute("SELECT relevo.make_archive_month(%s)", [wanted])


@pytest.mark.parametrize("path", ["traps, pg_catalog", "traps"])
def test_what_lies_in_the_callers_search_path_is_never_run(database: str, path: str) -> None:
    """Mechanism: both functions set their own search path."""
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(TRAPS.encode())

        with working_as(database, WORKER_ROLE) as worker:
            worker.execute("SELECT pg_catalog.set_config('search_path', %s, false)", [path])
            assert worker.execute("SELECT relevo.make_archive_month('2020-05-05')").fetchone()[0]
            worker.execute("SELECT relevo.drop_archive_month()")

        assert months(owner) == ["archive_2020_05"]
        allowed = "SELECT has_table_privilege('relevo_web', 'relevo.tenants', 'DELETE')"
        assert value(owner, allowed) is False


def test_a_session_in_another_time_zone_makes_the_same_month(database: str) -> None:
    with working_as(database, WORKER_ROLE, timezone="America/New_York") as worker:
        made = [
            value(worker, f"SELECT relevo.make_archive_month('{at}')")
            for at in ("2020-01-31 22:00", "2020-02-20 00:00 Asia/Tokyo", "2020-01-31 18:00")
        ]
        assert months(worker) == ["archive_2020_01", "archive_2020_02"]

    assert made == [True, False, True]
