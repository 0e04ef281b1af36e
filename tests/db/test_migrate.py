"""Migrations in lines: what is applied, what is recorded, and what is refused."""

import hashlib
import threading

import psycopg
import pytest
from migrating import HASTY, a_line, edit, rows, shape

from relevo.db.migrate import (
    ENGINE,
    DatabaseNewer,
    Line,
    LinesWrong,
    MigrationBlocked,
    MigrationChanged,
    MigrationControlsTransaction,
    MigrationError,
    MigrationMisnamed,
    MigrationMisnumbered,
    MigrationNotRepeatable,
    MigrationOutOfOrder,
    MigrationRefused,
    MigrationState,
    MigratorsBusy,
    Patience,
    SchemaForbidden,
    migrate,
    migration_status,
)
from relevo.db.migrate.session import LOCK_KEY

pytestmark = pytest.mark.core

FIRST = "CREATE SCHEMA shop;\nCREATE TABLE shop.orders (id integer PRIMARY KEY);\n"
SECOND = "ALTER TABLE shop.orders ADD COLUMN total integer;\n"
FILES = {"0001_orders.sql": FIRST, "0002_total.sql": SECOND}


def tables(dsn: str) -> int:
    return rows(dsn, "SELECT count(*) FROM pg_class WHERE oid >= 16384 AND relkind = 'r'")[0][0]


def test_every_line_is_applied_and_the_engine_comes_first(empty_database, tmp_path):
    shop = a_line(tmp_path, FILES)
    seen = []

    steps = migrate(empty_database, [shop, ENGINE], report=seen.append)

    order = [(step.line, step.version) for step in steps]
    assert order[0] == ("relevo", 1)
    assert order[-2:] == [("shop", 1), ("shop", 2)]
    assert seen == steps


def test_an_application_always_finds_the_engine_below_it(empty_database, tmp_path):
    steps = migrate(empty_database, [a_line(tmp_path, FILES)])

    assert steps[0].line == "relevo"


def test_a_line_without_files_is_no_fault(empty_database, tmp_path):
    migrate(empty_database, [a_line(tmp_path, {"README.md": "nothing yet"})])

    assert {status.line for status in migration_status(empty_database, [])} == {"relevo"}


def test_a_second_run_finds_nothing_to_do(empty_database, tmp_path):
    lines = [ENGINE, a_line(tmp_path, FILES)]
    migrate(empty_database, lines)
    before = shape(empty_database)

    assert migrate(empty_database, lines) == []
    assert shape(empty_database) == before


def test_the_ledger_says_what_was_applied_when_and_by_whom(empty_database, tmp_path):
    migrate(empty_database, [a_line(tmp_path, FILES)])

    found = rows(
        empty_database,
        "SELECT version, name, checksum, applied_by = session_user, applied_at <= clock_timestamp()"
        " FROM relevo.migrations WHERE line = 'shop' ORDER BY version",
    )
    checksums = [hashlib.sha256(text.encode()).hexdigest() for text in (FIRST, SECOND)]
    assert found == [
        (1, "orders", checksums[0], True, True),
        (2, "total", checksums[1], True, True),
    ]


def test_status_tells_applied_pending_changed_and_unknown_apart(empty_database, tmp_path):
    shop = a_line(tmp_path, {**FILES, "0003_more.sql": "SELECT 3"})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0001_orders.sql", FIRST + "-- edited")
    fewer = a_line(tmp_path, FILES, "shop")
    (tmp_path / shop.package / "0003_more.sql").unlink()
    edit(tmp_path, shop, "0003_other.sql", "SELECT 3")
    edit(tmp_path, shop, "0004_new.sql", "SELECT 4")

    def states(line: Line) -> list[MigrationState]:
        return [s.state for s in migration_status(empty_database, [line]) if s.line == "shop"]

    assert states(shop) == ["changed", "applied", "changed", "pending"]
    assert states(fewer) == ["applied", "applied", "unknown"]


def test_status_of_an_untouched_database_is_pending_and_writes_nothing(empty_database):
    statuses = migration_status(empty_database, [ENGINE])

    assert {status.state for status in statuses} == {MigrationState.PENDING}
    assert tables(empty_database) == 0


def test_an_edited_migration_is_refused_before_anything_is_written(empty_database, tmp_path):
    shop = a_line(tmp_path, FILES)
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0001_orders.sql", FIRST + "-- edited")
    edit(tmp_path, shop, "0003_more.sql", "CREATE TABLE shop.more ()")
    before = shape(empty_database)

    with pytest.raises(MigrationChanged, match="0001 orders of line shop"):
        migrate(empty_database, [shop])

    assert shape(empty_database) == before


def test_line_ends_of_another_checkout_are_the_same_migration(empty_database, tmp_path):
    shop = a_line(tmp_path, FILES)
    migrate(empty_database, [shop])
    (tmp_path / shop.package / "0001_orders.sql").write_bytes(FIRST.replace("\n", "\r\n").encode())

    assert migrate(empty_database, [shop]) == []


def test_an_older_release_refuses_a_database_that_a_newer_one_migrated(empty_database, tmp_path):
    migrate(empty_database, [a_line(tmp_path, FILES)])
    older = a_line(tmp_path, {"0001_orders.sql": FIRST})
    before = shape(empty_database)

    with pytest.raises(DatabaseNewer, match="0002 total of line shop"):
        migrate(empty_database, [older])

    assert shape(empty_database) == before


def test_a_migration_that_was_passed_over_is_refused(empty_database, tmp_path):
    shop = a_line(tmp_path, FILES)
    migrate(empty_database, [shop])
    with psycopg.connect(empty_database) as connection:
        connection.execute("DELETE FROM relevo.migrations WHERE line = 'shop' AND version = 1")

    with pytest.raises(MigrationOutOfOrder, match="0001 orders of line shop"):
        migrate(empty_database, [shop])


def test_lines_of_other_applications_are_left_alone(empty_database, tmp_path):
    migrate(empty_database, [a_line(tmp_path, FILES)])

    other = a_line(tmp_path, {"0001_stock.sql": "CREATE SCHEMA stock"}, "stock")
    steps = migrate(empty_database, [other])

    assert [(step.line, step.version) for step in steps] == [("stock", 1)]


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"0001_a.sql": "SELECT 1", "0003_c.sql": "SELECT 1"}, MigrationMisnumbered),
        ({"0002_b.sql": "SELECT 1"}, MigrationMisnumbered),
        ({"0001_a.sql": "SELECT 1", "0001_b.sql": "SELECT 1"}, MigrationMisnumbered),
        ({"1_a.sql": "SELECT 1"}, MigrationMisnamed),
        ({"0001-a.sql": "SELECT 1"}, MigrationMisnamed),
        ({"0001_a.sql": "SELECT 1; COMMIT; SELECT 2"}, MigrationControlsTransaction),
        ({"0001_a.sql": "/* all */ begin; SELECT 1; end;"}, MigrationControlsTransaction),
        ({"0001_a.sql": "-- transaction: none\nCREATE TABLE t ()"}, MigrationNotRepeatable),
        ({"0001_a.sql": "-- transaction: none\nINSERT INTO t SELECT"}, MigrationNotRepeatable),
        ({"0001_a.sql": "-- transaction: none\nCREATE INDEX i ON s.t (c)"}, MigrationNotRepeatable),
        (
            {"0001_a.sql": "-- transaction: none\nCREATE INDEX CONCURRENTLY i ON t (c)"},
            MigrationNotRepeatable,
        ),
    ],
)
def test_unsafe_files_are_refused_before_a_database_is_opened(tmp_path, files, error):
    with pytest.raises(error):
        migrate("host=nowhere.invalid", [a_line(tmp_path, files)])


@pytest.mark.parametrize("name", ["relevo", "Shop", "two words", ""])
def test_a_line_has_a_word_of_its_own(tmp_path, name):
    with pytest.raises(LinesWrong):
        migrate("host=nowhere.invalid", [a_line(tmp_path, FILES, name)])


def test_a_refused_migration_leaves_nothing_of_itself_and_keeps_those_before(
    empty_database, tmp_path
):
    wrong = "CREATE TABLE shop.half (id integer);\nALTER TABLE shop.nowhere ADD COLUMN a integer;"
    shop = a_line(tmp_path, {**FILES, "0003_wrong.sql": wrong})

    with pytest.raises(MigrationRefused, match=r'0003 wrong of line shop.*"shop\.nowhere"'):
        migrate(empty_database, [shop])

    assert rows(empty_database, "SELECT to_regclass('shop.half')") == [(None,)]
    edit(tmp_path, shop, "0003_wrong.sql", "CREATE TABLE shop.half (id integer)")
    assert [step.version for step in migrate(empty_database, [shop])] == [3]


def test_a_migration_waits_for_a_lock_in_short_tries_and_goes_through(empty_database, tmp_path):
    """Mechanism: lock_timeout with bounded tries, so that nobody queues behind for long."""
    shop = a_line(tmp_path, {"0001_orders.sql": FIRST})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0002_total.sql", SECOND)
    timeouts = "SELECT FROM pg_stat_activity WHERE query = 'ROLLBACK' AND state = 'idle'"

    with (
        psycopg.connect(empty_database) as holder,
        psycopg.connect(empty_database, autocommit=True) as watcher,
    ):
        holder.execute("LOCK TABLE shop.orders IN ACCESS SHARE MODE")
        steps = []
        worker = threading.Thread(
            target=lambda: steps.extend(migrate(empty_database, [shop], patience=HASTY))
        )
        worker.start()
        while not watcher.execute(timeouts).fetchall():
            assert worker.is_alive()
        holder.rollback()
        worker.join(30)

    assert [(step.line, step.version) for step in steps] == [("shop", 2)]


def test_a_migration_that_never_gets_its_lock_gives_up_and_leaves_nothing(empty_database, tmp_path):
    shop = a_line(tmp_path, {"0001_orders.sql": FIRST})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0002_total.sql", "CREATE TABLE shop.new ();" + SECOND)
    patience = Patience(lock_for=0.02, tries=3, pause=0.01)

    with psycopg.connect(empty_database) as holder:
        holder.execute("LOCK TABLE shop.orders IN ACCESS SHARE MODE")
        with pytest.raises(MigrationBlocked, match="in 3 tries"):
            migrate(empty_database, [shop], patience=patience)

    assert rows(empty_database, "SELECT to_regclass('shop.new')") == [(None,)]


def test_two_migrators_at_once_both_end_well(empty_database, tmp_path):
    lines = [ENGINE, a_line(tmp_path, FILES)]
    done: list[list] = []
    threads = [
        threading.Thread(target=lambda: done.append(migrate(empty_database, lines)))
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(map(len, done))[:3] == [0, 0, 0]
    assert len(done[0]) + sum(map(len, done[1:])) == len(migration_status(empty_database, lines))


def test_a_migrator_that_waited_too_long_says_so(empty_database):
    with psycopg.connect(empty_database) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [LOCK_KEY])
        with pytest.raises(MigratorsBusy):
            migrate(empty_database, [ENGINE], patience=Patience(turn_for=0))

    assert tables(empty_database) == 0


def test_settings_of_the_database_change_nothing(empty_database, tmp_path):
    """Mechanism: every setting that could change a migration's meaning is set before each one."""
    shop = a_line(tmp_path, {**FILES, "0003_path.sql": "SET search_path = public"})
    lines = [ENGINE, shop, a_line(tmp_path, {"0001_a.sql": "SELECT 1"}, "after")]
    name = psycopg.conninfo.conninfo_to_dict(empty_database)["dbname"]
    with psycopg.connect(empty_database, autocommit=True) as connection:
        for setting in (
            "default_transaction_isolation = serializable",
            "default_transaction_read_only = on",
            "default_transaction_deferrable = on",
            "search_path = ''",
            "statement_timeout = '1ms'",
            "standard_conforming_strings = off",
        ):
            connection.execute(f"ALTER DATABASE {name} SET {setting}")

    migrate(empty_database, lines)

    assert migrate(empty_database, lines) == []


def test_the_schema_works_under_serializable_and_without_a_search_path(empty_database):
    migrate(empty_database, [ENGINE])
    with psycopg.connect(empty_database) as connection:
        connection.execute("SET search_path = ''")
        connection.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        connection.execute("SET LOCAL ROLE relevo_web")
        added = connection.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind) VALUES (relevo.current_tenant(), 'a')"
            " ON CONFLICT DO NOTHING RETURNING id"
        ).fetchall()
        connection.execute("RESET ROLE")
        connection.execute("SET LOCAL ROLE relevo_worker")
        connection.execute(
            "INSERT INTO relevo.workers (name, queues, kinds, concurrency, version, expires_at)"
            " VALUES ('w', '{}', '{}', 1, '1', clock_timestamp() - interval '1 s')"
        )
        connection.execute("DELETE FROM relevo.workers")
        ended = connection.execute("SELECT count(*) FROM relevo.ended_workers").fetchone()

    assert (len(added), ended) == (1, (1,))


def test_a_role_without_rights_on_the_database_is_told_so(empty_database, a_login):
    with pytest.raises(SchemaForbidden, match=a_login.name):
        migrate(a_login.on(empty_database), [ENGINE])

    assert tables(empty_database) == 0


def test_somebody_elses_schema_is_not_touched(database, a_login):
    with pytest.raises(SchemaForbidden):
        migrate(a_login.on(database), [ENGINE])


def test_every_refusal_is_caught_as_one():
    assert issubclass(MigrationRefused, MigrationError)
