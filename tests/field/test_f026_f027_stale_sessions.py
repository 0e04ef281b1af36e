"""F-026 and F-027: the schema changes under a session, or its server takes no writes any more.

Mechanisms: statements name their columns, so a plan outlives a new one; a session that is
told 25006 (read-only) or 0A000 (a stale plan) is dropped and opened anew, for neither heals
by itself; sessions begin read-write, whatever the database's default says; what could not
be written is written again under the same fence.
"""

from collections.abc import Iterator
from datetime import timedelta
from importlib.resources import files
from typing import Any

import psycopg
import pytest
from field_children import BUSY
from own_server import an_own_server
from psycopg import sql

from child_jobs import note, slow, stale
from factories import history, value
from relevo.db.statements import load_statements
from workers import SCALE, a_child, make_effects, query, wait_until

LEASE = timedelta(seconds=2)
SLOTS = 4
ALL = {"poll": 0.2, "lease": LEASE.total_seconds(), "concurrency": SLOTS}
AWAY = min(10.0, 5.0 * SCALE)
"""For how long the server is read-only; longer than two leases also every day."""

NOW = "SELECT clock_timestamp()"
UNFINISHED = "SELECT count(*) FROM relevo.jobs WHERE live"
OVERDUE = """
SELECT count(*)
FROM relevo.jobs
WHERE state = 'running'
  AND greatest(started_at, %s) < clock_timestamp() - %s
"""
STARTS = """
SELECT
    j.attempt - j.excused AS charged,
    j.excused,
    j.losses,
    count(a.attempt) FILTER (WHERE a.outcome = 'retried') AS failed,
    count(a.attempt) FILTER (WHERE a.outcome = 'released') AS released
FROM relevo.jobs AS j
LEFT JOIN relevo.attempts AS a ON a.tenant_id = j.tenant_id AND a.job_id = j.id
GROUP BY j.tenant_id, j.id
"""
ERRORS = "SELECT error FROM relevo.attempts WHERE outcome = %s"
CHARGED = "SELECT count(*) FROM relevo.jobs WHERE attempt - excused > 1 OR losses > 0"
COMPLETED = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
PIDS = """
SELECT application_name, pid
FROM pg_stat_activity
WHERE datname = current_database()
  AND application_name ~ '^relevo (claim|settle|heartbeat) '
"""
REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'cannot execute % in a read-only transaction', TG_OP USING ERRCODE = '25006';
END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON relevo.jobs
    FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON relevo.workers
    FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
"""
ACCEPT = "DROP FUNCTION public.refuse CASCADE"


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def some_notes(owner: psycopg.Connection, number: int, seconds: float = 0.0) -> None:
    with owner.transaction():
        note.enqueue_many(owner, [{"seconds": seconds}] * number)


def all_done(owner: psycopg.Connection) -> bool:
    return bool(value(owner, UNFINISHED) == 0)


def see_done(owner: psycopg.Connection, recovered_at: Any) -> None:
    """Wait until all is done, and see that no start outlasts two leases from the recovery on."""

    def is_over() -> bool:
        assert value(owner, OVERDUE, recovered_at, 2 * LEASE + BUSY) == 0, "a row stays running"
        owner.execute("UPDATE relevo.jobs SET available_at = now() WHERE available_at > now()")
        return all_done(owner)

    wait_until(is_over, 60)


def test_f026_a_new_column_of_every_table_costs_no_job_a_start(
    database: str, owner: psycopg.Connection
) -> None:
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'relevo'"
    with a_child(database, "field", **ALL) as child:
        # Often enough for every statement of the way to be prepared in the server.
        for _ in range(8):
            some_notes(owner, 3)
            wait_until(lambda: all_done(owner), 60)

        for (table,) in owner.execute(tables).fetchall():
            add = sql.SQL("ALTER TABLE relevo.{} ADD COLUMN x int")
            owner.execute(add.format(sql.Identifier(table)))
        for _ in range(3):
            some_notes(owner, 3)
            wait_until(lambda: all_done(owner), 60)

        assert child.is_alive
        log = child.end()
    assert value(owner, CHARGED) == 0
    assert value(owner, "SELECT max(attempt) FROM relevo.jobs") == 1
    assert log.count("cached plan must not change result type") <= 1
    assert "ERROR" not in log


def test_f026_a_new_column_does_not_reach_the_answer_of_any_statement(
    connection: psycopg.Connection,
) -> None:
    """Red when a statement says SELECT * or RETURNING * of a table."""
    statements = {
        f"{path.name}/{path.parent.name}/{name}": statement.numbered  # type: ignore[union-attr]
        for package in ("relevo.store", "relevo.store.jobs")
        for path in files(package).iterdir()
        if path.name.endswith(".sql")
        for name, statement in load_statements(package, path.name).items()
    }

    def columns() -> dict[str, list[str]]:
        found = {}
        for name, text in statements.items():
            connection.pgconn.prepare(b"", text.encode())
            described = connection.pgconn.describe_prepared(b"")
            found[name] = [str(described.fname(n)) for n in range(described.nfields)]
        return found

    before = columns()
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'relevo'"
    for (table,) in connection.execute(tables).fetchall():
        add = sql.SQL("ALTER TABLE relevo.{} ADD COLUMN x int")
        connection.execute(add.format(sql.Identifier(table)))

    assert len(before) > 40
    assert columns() == before


def test_f027_sessions_that_were_told_25006_are_replaced_and_nothing_is_charged(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when 25006 ends a loop, counts against a job, or leaves its connection in use."""
    with a_child(database, "field", **ALL) as child:
        # The server hears of their ends from the engine alone, not from their own transactions.
        with owner.transaction():
            slow.enqueue_many(owner, [{"seconds": 0.05}] * 40)
            slow.enqueue(owner, seconds=0.5)
        wait_until(lambda: value(owner, COMPLETED) > 4, 60)
        session = value(owner, "SELECT max(id) FROM relevo.workers")
        before = dict(query(database, PIDS))

        with owner.transaction():
            owner.execute(REFUSE)
        query(database, "SELECT pg_sleep(%s)", AWAY)
        with owner.transaction():
            owner.execute(ACCEPT)
        see_done(owner, value(owner, NOW))

        wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"), 60)
        after = dict(query(database, PIDS))
        assert child.is_alive
        log = child.end()
    assert "in a read-only transaction" in log
    assert value(owner, CHARGED) == 0
    assert value(owner, "SELECT max(id) FROM relevo.workers") == session
    heartbeat, claim = "heartbeat waits for the database", "loop claim waits for the database"
    assert heartbeat in log
    assert claim in log
    assert len(before) == len(after) == 3
    assert all(before[purpose] != after[purpose] for purpose in before)


def test_f027_a_handler_that_is_told_25006_is_not_charged(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when what a read-only server does to a handler counts as the job's own failure."""
    running = "SELECT count(*) FROM relevo.jobs WHERE state = 'running'"
    # A lease that lasts: otherwise the handlers would be cancelled before they hear of it.
    with a_child(database, "field", **{**ALL, "lease": 60.0}) as child:
        some_notes(owner, SLOTS, seconds=1.0)
        wait_until(lambda: value(owner, running) == SLOTS, 60)
        with owner.transaction():
            owner.execute(REFUSE)
        wait_until(lambda: child.logged("answers could not be written yet"), 60)
        with owner.transaction():
            owner.execute(ACCEPT)
        see_done(owner, value(owner, NOW))

        assert child.is_alive
    told = [error for (error,) in query(database, ERRORS, "released")]
    assert len(told) == SLOTS
    assert all("in a read-only transaction" in error for error in told)
    assert value(owner, CHARGED) == 0


def test_f027_a_default_of_read_only_does_not_reach_the_engine(
    database: str, owner: psycopg.Connection
) -> None:
    name = sql.Identifier(owner.info.dbname)
    some_notes(owner, 20)

    owner.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    with a_child(database, "field", **ALL):
        wait_until(lambda: all_done(owner), 60)

    assert query(database, "SHOW default_transaction_read_only") == [("on",)]
    assert value(owner, "SELECT max(attempt) FROM relevo.jobs") == 1


def test_f027_a_worker_outlives_a_server_that_comes_back_as_a_standby_and_is_promoted() -> None:
    """A fail-over as it is seen from a worker: nothing takes writes until one is promoted.

    Charged is the handler alone that was inside its transaction when the server died: that
    error is the handler's own to the worker. What waits for a connection, or is stopped because
    its lease cannot be proved, goes back without a charge, and nothing is lost.
    """
    with an_own_server() as server:
        make_effects(server.dsn)
        with a_child(server.dsn, "field", **ALL) as child:
            with psycopg.connect(server.dsn, autocommit=True) as owner:
                with owner.transaction():
                    # It ends while its lease is still proved, and after the server has died.
                    inside = stale.enqueue(owner, seconds=0.8)
                    some_notes(owner, 40, seconds=0.05)
                wait_until(lambda: value(owner, COMPLETED) > 4, 60)
            server.stop_at_once()
            server.start_as_standby()
            query(server.dsn, "SELECT pg_sleep(%s)", AWAY)
            query(server.dsn, "SELECT pg_promote()")
            with psycopg.connect(server.dsn, autocommit=True) as owner:
                recovered_at = value(owner, NOW)
                some_notes(owner, 5)
                see_done(owner, recovered_at)
                starts = query(server.dsn, STARTS)
                ends = [attempt["outcome"] for attempt in history(owner, inside.id)]
                blamed = [error for (error,) in query(server.dsn, ERRORS, "retried")]

            assert child.is_alive
    assert ends == ["retried"]
    assert len(blamed) <= SLOTS
    assert not [error for error in blamed if "read-only" in error or "starting up" in error]
    for charged, excused, losses, failed, released in starts:
        assert (charged, excused, losses) == (1 + failed, released, 0)
        assert failed <= 1
