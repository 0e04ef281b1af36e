"""An application's own login enqueues with the documented grants, and needs no others."""

import re
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from relevo.db.drivers import run
from relevo.db.identity import Mode, set_mode
from relevo.db.statements import load_statements

pytestmark = pytest.mark.core

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "database-roles.md"
DEFAULT = UUID("00000000-0000-0000-0000-000000000001")
OTHER = UUID("00000000-0000-0000-0000-00000000000c")


@pytest.fixture
def shop(connection: psycopg.Connection, database: str, a_login) -> psycopg.Connection:
    """A connection of an application that has the documented grants."""
    grants = re.search(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    connection.execute(re.sub(r"\bshop\b", a_login.name, grants).encode())
    connection.execute("INSERT INTO relevo.tenants VALUES (%s, 'other', 'other')", [OTHER])
    connection.commit()
    with psycopg.connect(a_login.on(database)) as opened:
        yield opened
        opened.rollback()


def enqueue(connection: psycopg.Connection, tenant: UUID) -> tuple | None:
    return connection.execute(
        "INSERT INTO relevo.jobs (tenant_id, queue, kind, aggregate_id, payload, actor)"
        " SELECT %s, 'mail', 'order.paid', '7', '{}', 'shop' ON CONFLICT DO NOTHING RETURNING id",
        [tenant],
    ).fetchone()


def test_it_enqueues_and_learns_the_id(shop):
    assert enqueue(shop, DEFAULT) is not None


def test_it_enqueues_for_the_tenant_of_its_transaction_only(shop, connection):
    run(connection, set_mode(Mode.MULTI))
    connection.commit()
    shop.execute("SELECT set_config('relevo.tenant', %s, true)", [str(OTHER)])

    assert enqueue(shop, OTHER) is not None
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        enqueue(shop, DEFAULT)


def test_the_statements_of_the_engine_need_no_more(shop):
    statements = load_statements("relevo.store.jobs", "enqueue.sql")
    values = {
        "tenant_id": DEFAULT,
        "queue": "mail",
        "kind": "order.paid",
        "lane": UUID(int=0),
        "priority": 1,
        "delay": 0,
        "max_attempts": 6,
        "payload": "{}",
        "payloads": ["{}", "{}"],
        "aggregate_ids": ["1", "2"],
        "keys": ["a", "b"],
        "key_mode": "key",
    }

    for name in (
        "insert_job",
        "insert_jobs",
        "wake_workers",
        "release_expired_keys",
        "find_key_holders",
    ):
        statement = statements[name]
        params = {**dict.fromkeys(statement.parameters), **values}
        shop.execute(statement.sql.encode(), params)


def test_it_may_do_nothing_else(shop):
    for statement in (
        "DELETE FROM relevo.jobs",
        "UPDATE relevo.jobs SET state = 'completed'",
        "SELECT * FROM relevo.attempts",
        "SELECT * FROM relevo.tenants",
        "SELECT * FROM relevo.workers",
        "UPDATE relevo.installation SET mode = 'multi'",
        "SET ROLE relevo_worker",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), shop.transaction():
            shop.execute(statement.encode())
