"""An application's own login enqueues with the documented grants, and needs no others."""

import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from factories import a_job, a_tenant, a_worker, job_row
from relevo import DEFAULT_TENANT, Cancelled, cancel_jobs, perform, requeue_jobs
from relevo.db.drivers import run
from relevo.db.identity import Mode, set_mode
from relevo.db.statements import load_statements

pytestmark = pytest.mark.core

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "database-roles.md"
DEFAULT = DEFAULT_TENANT
OTHER = UUID("00000000-0000-0000-0000-00000000000c")


GRANTS = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
_TO_CANCEL, _TO_REQUEUE = GRANTS[1].split("-- requeue_jobs")


def grant(connection: psycopg.Connection, login: str, grants: str) -> None:
    connection.execute(re.sub(r"\bshop\b", login, grants).encode())
    connection.commit()


@pytest.fixture
def shop(connection: psycopg.Connection, database: str, a_login) -> psycopg.Connection:
    """A connection of an application that has the documented grants."""
    grant(connection, a_login.name, GRANTS[0])
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


@pytest.mark.parametrize(
    "operation",
    [
        lambda job: cancel_jobs(DEFAULT, "test.work", "7"),
        lambda job: requeue_jobs(DEFAULT, [job]),
    ],
    ids=["cancel", "requeue"],
)
def test_it_takes_back_and_starts_again_nothing_with_the_rights_to_enqueue(
    shop: psycopg.Connection, connection: psycopg.Connection, operation: Callable
) -> None:
    job = a_job(connection, aggregate_id="7")
    connection.commit()

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table"):
        perform(shop, operation(job))


def test_it_takes_back_with_the_rights_that_the_page_names(
    shop: psycopg.Connection, connection: psycopg.Connection
) -> None:
    grant(connection, shop.info.user, _TO_CANCEL)
    waiting = a_job(connection, aggregate_id="7")
    a_job(connection, aggregate_id="7", state="running")
    connection.commit()

    answer = perform(shop, cancel_jobs(DEFAULT, "test.work", "7"))
    shop.commit()

    assert answer == Cancelled(cancelled=1, asked=1)
    assert job_row(connection, waiting)["state"] == "cancelled"


def test_it_starts_again_with_the_rights_that_the_page_names(
    shop: psycopg.Connection, connection: psycopg.Connection
) -> None:
    grant(connection, shop.info.user, _TO_REQUEUE)
    a_worker(connection, idle=True)
    other = a_job(connection, state="failed", tenant_id=a_tenant(connection))
    jobs = [a_job(connection, state=state) for state in ("failed", "completed", "available")]
    connection.commit()

    concerned = perform(shop, requeue_jobs(DEFAULT, [*jobs, other], actor="shop"))
    shop.commit()

    assert concerned == 3
    assert {job_row(connection, job)["state"] for job in jobs} == {"available"}
    assert job_row(connection, other)["state"] == "failed"


def test_it_reaches_no_job_of_another_tenant(
    shop: psycopg.Connection, connection: psycopg.Connection
) -> None:
    """Red when the rights reach past row-level security."""
    run(connection, set_mode(Mode.MULTI))
    grant(connection, shop.info.user, GRANTS[1])
    job = a_job(connection, state="failed", aggregate_id="7", tenant_id=OTHER)
    a_job(connection, aggregate_id="7", tenant_id=OTHER)
    connection.commit()
    shop.execute("SELECT set_config('relevo.tenant', %s, true)", [str(DEFAULT)])

    taken = perform(shop, cancel_jobs(OTHER, "test.work", "7"))
    concerned = perform(shop, requeue_jobs(OTHER, [job]))

    assert (taken, concerned) == (Cancelled(cancelled=0, asked=0), 0)
