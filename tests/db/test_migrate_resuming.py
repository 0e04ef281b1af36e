"""A migration that was killed, at any point, is finished by the next one."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from migrating import HASTY, a_line, edit, rows

from relevo.db.migrate import Line, MigrationRefused, Patience, migrate
from relevo.db.migrate.lines import load_lines

pytestmark = pytest.mark.core

KILLER = Path(__file__).with_name("kill_migrator.py")
FIRST = "CREATE SCHEMA shop;\nCREATE TABLE shop.orders (id integer PRIMARY KEY, total integer);"
SECOND = """-- transaction: none
CREATE INDEX CONCURRENTLY orders_total ON shop.orders (total);
ALTER TABLE shop.orders VALIDATE CONSTRAINT orders_positive;
CREATE UNIQUE INDEX CONCURRENTLY orders_once ON shop.orders (total) WHERE total > 100;
"""
CHECKED = (
    FIRST + "ALTER TABLE shop.orders ADD CONSTRAINT orders_positive CHECK (total > 0) NOT VALID;"
)


def valid(dsn: str, index: str) -> bool:
    query = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
    return rows(dsn, query, index)[0][0]


@pytest.fixture
def shop(empty_database: str, tmp_path: Path) -> Line:
    """A line whose table is there and whose index is still to come."""
    line = a_line(tmp_path, {"0001_orders.sql": CHECKED})
    migrate(empty_database, [line])
    edit(tmp_path, line, "0002_index.sql", SECOND)
    return line


def test_a_kill_before_or_after_any_statement_is_made_good_by_the_next_run(
    empty_database, tmp_path
):
    """Mechanism: each migration records itself in its own transaction, or may run twice."""
    line = a_line(tmp_path, {"0001_orders.sql": CHECKED, "0002_index.sql": SECOND})

    run = subprocess.run(
        [sys.executable, KILLER, empty_database, tmp_path, line.package],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    outcome = json.loads(run.stdout)
    assert outcome["points"] > 2 * len(load_lines([line])) * 5
    assert outcome["broken"] == []


def test_an_index_that_failed_to_build_is_dropped_and_built_again(empty_database, shop):
    twice = "INSERT INTO shop.orders VALUES (1, 200), (2, 200)"
    with psycopg.connect(empty_database) as connection:
        connection.execute(twice)

    with pytest.raises(MigrationRefused, match="orders_once"):
        migrate(empty_database, [shop])
    assert not valid(empty_database, "shop.orders_once")
    with psycopg.connect(empty_database) as connection:
        connection.execute("UPDATE shop.orders SET total = 201 WHERE id = 2")
    steps = migrate(empty_database, [shop])

    assert [step.name for step in steps] == ["index"]
    assert valid(empty_database, "shop.orders_once")


def test_a_build_that_was_terminated_is_finished_by_the_next_run(empty_database, shop):
    """The holder's transaction keeps the build waiting, so that it can be ended in the middle."""
    building = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        " AND query LIKE 'CREATE INDEX CONCURRENTLY%%' AND datname = current_database()"
    )
    failures = []

    def attempt() -> None:
        try:
            migrate(empty_database, [shop], patience=HASTY)
        except (psycopg.Error, MigrationRefused) as error:
            failures.append(error)

    with (
        psycopg.connect(empty_database) as holder,
        psycopg.connect(empty_database, autocommit=True) as watcher,
    ):
        holder.execute("INSERT INTO shop.orders VALUES (1, 1)")
        worker = threading.Thread(target=attempt)
        worker.start()
        while not (found := watcher.execute(building).fetchall()):
            assert worker.is_alive()
        watcher.execute("SELECT pg_terminate_backend(%s)", found[0])
        worker.join(30)

    assert len(failures) == 1
    assert not valid(empty_database, "shop.orders_total")
    migrate(empty_database, [shop])
    assert valid(empty_database, "shop.orders_total")


def test_a_second_migrator_does_not_stall_a_concurrent_build(empty_database, shop):
    """Mechanism: the turn is polled; a waiting statement would hold back the build."""
    done: list[int] = []
    threads = [
        threading.Thread(target=lambda: done.append(len(migrate(empty_database, [shop]))))
        for _ in range(3)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(done) == [0, 0, 1]


def test_a_concurrent_build_is_not_cut_short_by_the_short_lock_timeout(empty_database, shop):
    with psycopg.connect(empty_database) as holder:
        holder.execute("INSERT INTO shop.orders VALUES (1, 1)")
        options = {"patience": Patience(lock_for=0.05, tries=1)}
        worker = threading.Thread(target=migrate, args=(empty_database, [shop]), kwargs=options)
        worker.start()
        waited = "SELECT clock_timestamp() - query_start > interval '200 ms' FROM pg_stat_activity"
        waiting = f"{waited} WHERE query LIKE 'CREATE INDEX%' AND datname = current_database()"
        while rows(empty_database, waiting) != [(True,)]:
            assert worker.is_alive()
        holder.commit()
        worker.join(30)

    assert valid(empty_database, "shop.orders_total")
