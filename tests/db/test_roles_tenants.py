"""Nobody but a worker reads or writes the rows of another tenant, whatever the SQL says."""

from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from tenant_rows import ROWS, add_tenant, first_row, insert_row, links, name_of

from relevo.db.drivers import run
from relevo.db.identity import Mode, set_mode

pytestmark = pytest.mark.core

MINE = UUID("00000000-0000-0000-0000-00000000000a")
THEIRS = UUID("00000000-0000-0000-0000-00000000000b")
TABLES = sorted(ROWS)


@pytest.fixture
def tenants(connection: psycopg.Connection) -> psycopg.Connection:
    """The owner's connection, with two tenants that have rows everywhere."""
    add_tenant(connection, MINE)
    add_tenant(connection, THEIRS)
    return connection


@pytest.fixture
def web(tenants: psycopg.Connection, database: str) -> Iterator[psycopg.Connection]:
    """A connection of the web role, in a transaction of one tenant."""
    tenants.commit()
    with psycopg.connect(database, options="-c role=relevo_web") as opened:
        opened.execute("SELECT set_config('relevo.tenant', %s, true)", [str(MINE)])
        yield opened
        opened.rollback()


def count(connection: psycopg.Connection, table: str, tenant: UUID) -> int:
    query = sql.SQL("SELECT count(*) FROM {} WHERE tenant_id = %s").format(name_of(table))
    return connection.execute(query, [tenant]).fetchone()[0]


def test_the_rows_below_cover_every_table_with_tenants(connection):
    found = connection.execute(
        "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid"
        " WHERE attname = 'tenant_id' AND relkind IN ('r', 'p') AND attrelid >= 16384"
    ).fetchall()

    assert sorted(row[0] for row in found) == TABLES


def test_the_web_role_reads_its_own_tenant_only(web):
    seen = {table: (count(web, table, MINE) > 0, count(web, table, THEIRS)) for table in TABLES}

    assert seen == dict.fromkeys(TABLES, (True, 0))


def test_the_web_role_adds_no_row_to_another_tenant(tenants, web):
    for table in TABLES:
        row = first_row(tenants, table, THEIRS)
        # Into the archive it adds no row at all.
        why = "permission denied" if table == "relevo.archive" else "row-level security"
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege, match=why),
            web.transaction(),
        ):
            insert_row(web, table, row)


@pytest.mark.parametrize("verb", ["UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}"])
def test_the_web_role_changes_no_row_of_another_tenant(tenants, web, verb):
    before = {table: count(tenants, table, THEIRS) for table in TABLES}
    tenants.commit()

    for table in TABLES:
        change = sql.SQL(verb + " WHERE tenant_id = %s").format(name_of(table))
        with suppress(psycopg.errors.InsufficientPrivilege), web.transaction():
            assert web.execute(change, [THEIRS]).rowcount == 0
    web.commit()

    assert {table: count(tenants, table, THEIRS) for table in TABLES} == before


def test_the_web_role_hands_no_row_of_its_own_to_another_tenant(web):
    for table in TABLES:
        move = sql.SQL("UPDATE {} SET tenant_id = %s WHERE tenant_id = %s").format(name_of(table))
        with pytest.raises(psycopg.errors.InsufficientPrivilege), web.transaction():
            web.execute(move, [THEIRS, MINE])


def test_after_its_transaction_a_tenant_is_forgotten(tenants, web):
    """Mechanism: the setting is empty then, and an installation of many tenants has no default."""
    run(tenants, set_mode(Mode.MULTI))
    tenants.commit()
    web.commit()

    assert {table: count(web, table, MINE) for table in TABLES} == dict.fromkeys(TABLES, 0)


def test_with_one_tenant_the_web_role_works_without_naming_it(database):
    with psycopg.connect(database, options="-c role=relevo_web") as web:
        web.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind) VALUES (relevo.current_tenant(), 'a')"
        )
        web.commit()
        assert web.execute("SELECT count(*) FROM relevo.jobs").fetchone() == (1,)


def test_the_worker_sees_every_tenant(tenants, database):
    tenants.commit()

    with psycopg.connect(database, options="-c role=relevo_worker") as worker:
        for table in ("relevo.jobs", "relevo.attempts", "relevo.archive"):
            assert count(worker, table, MINE) > 0
            assert count(worker, table, THEIRS) > 0


def test_no_link_crosses_from_one_tenant_to_another(tenants):
    """Mechanism: foreign keys of two columns; the session here passes row-level security."""
    found = links(tenants)
    assert len(found) >= 8

    for link in found:
        target = first_row(tenants, link.target, THEIRS)
        row = first_row(tenants, link.table, MINE)
        if "id" in row:
            row["id"] = row["id"] + 1000 if isinstance(row["id"], int) else str(uuid4())
        for here, there in zip(link.columns, link.target_columns, strict=True):
            row[here] = row[here] if here == "tenant_id" else target[there]
        with pytest.raises(psycopg.errors.ForeignKeyViolation), tenants.transaction():
            insert_row(tenants, link.table, row)


def test_a_key_of_another_tenant_is_not_revealed_by_a_conflict(tenants):
    key = "INSERT INTO relevo.jobs (tenant_id, kind, key) VALUES (%s, 'a', 'k') RETURNING id"

    assert tenants.execute(key, [MINE]).fetchone()
    assert tenants.execute(key, [THEIRS]).fetchone()


def test_a_lease_that_still_runs_keeps_its_row(connection):
    connection.execute(
        "INSERT INTO relevo.workers (name, queues, kinds, concurrency, version, expires_at)"
        " VALUES ('w', '{}', '{}', 1, '1', clock_timestamp() + interval '1 minute')"
    )

    with pytest.raises(psycopg.errors.ObjectInUse, match="still holds its lease"):
        connection.execute("DELETE FROM relevo.workers")
