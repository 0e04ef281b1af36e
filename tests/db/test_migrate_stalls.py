"""A migration under load: nobody stands long behind it, and a vacuum does not stop it."""

import threading

import psycopg
from migrating import a_line, edit, rows

from relevo.db.migrate import Patience, migrate

TABLE = "CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint PRIMARY KEY, total bigint);"


def test_nobody_waits_behind_a_migration_that_waits_for_a_vacuum(empty_database, tmp_path):
    shop = a_line(tmp_path, {"0001_orders.sql": TABLE})
    migrate(empty_database, [shop])
    edit(tmp_path, shop, "0002_note.sql", "ALTER TABLE shop.orders ADD COLUMN note text;")
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'shop.orders'::regclass"
    )

    with psycopg.connect(empty_database) as vacuum:
        # The lock that a vacuum holds.
        vacuum.execute("LOCK TABLE shop.orders IN SHARE UPDATE EXCLUSIVE MODE")
        patience = Patience(lock_for=0.05)
        worker = threading.Thread(
            target=migrate, args=(empty_database, [shop]), kwargs={"patience": patience}
        )
        worker.start()
        while rows(empty_database, waiting) != [(1,)]:
            assert worker.is_alive()

        with psycopg.connect(empty_database) as writer:
            writer.execute("SET lock_timeout = '20ms'")
            writer.execute("INSERT INTO shop.orders VALUES (1, 1)")
        vacuum.commit()
    worker.join(30)

    assert rows(empty_database, "SELECT note FROM shop.orders") == [(None,)]


def test_by_default_nobody_waits_behind_a_migration_for_a_second(empty_database):
    assert Patience().lock_for < 1
