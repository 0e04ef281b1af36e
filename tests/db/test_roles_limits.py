"""Who may read and set limits: workers and operators; who enqueues or serves people may not.

A permit names jobs of every tenant, and whoever could lock or change limits would stop all work.
"""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from factories import KIND, QUEUE, a_worker, claim_some, some_jobs
from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.engine.limits import list_limits, prune_permits, remove_limit, set_limit
from relevo.model.ids import lane_of
from relevo.model.scope import Scope

pytestmark = pytest.mark.core

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "database-roles.md"
DEFAULT = UUID("00000000-0000-0000-0000-000000000001")

# What would stop or spoil the work of others; each needs a right that is not given.
CHANGES = (
    "INSERT INTO relevo.limits (scope, name, measure, most) VALUES ('queue', 'q', 'running', 0)",
    "UPDATE relevo.limits SET most = 0",
    "DELETE FROM relevo.limits",
    "TRUNCATE relevo.limits",
    "LOCK TABLE relevo.limits IN EXCLUSIVE MODE",
    "LOCK TABLE relevo.limits IN SHARE MODE",
    "LOCK TABLE relevo.limits IN ROW SHARE MODE",
    "SELECT FROM relevo.limits FOR KEY SHARE",
    "SELECT * FROM relevo.permits",
    "SELECT count(*) FROM relevo.permits",
    "INSERT INTO relevo.permits SELECT 1, u, u, 1, 1, u, 1, now() FROM gen_random_uuid() AS u",
    "UPDATE relevo.permits SET taken_at = now()",
    "DELETE FROM relevo.permits",
    "TRUNCATE relevo.permits",
    "LOCK TABLE relevo.permits IN ACCESS SHARE MODE",
    "INSERT INTO relevo.pauses (scope, name, reason) VALUES ('queue', 'q', 'x')",
)


@pytest.fixture
def standing(connection: psycopg.Connection) -> psycopg.Connection:
    """The owner's connection, with a limit that a job uses."""
    run(connection, set_limit(Scope.QUEUE, QUEUE, 1, actor="ada"))
    some_jobs(connection, 2)
    assert len(claim_some(connection, a_worker(connection))) == 1
    connection.commit()
    return connection


@pytest.fixture
def shop(standing: psycopg.Connection, database: str, a_login) -> Iterator[psycopg.Connection]:
    """A connection of an application that has the documented grants."""
    grants = re.search(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    standing.execute(re.sub(r"\bshop\b", a_login.name, grants).encode())
    standing.commit()
    with psycopg.connect(a_login.on(database)) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def web(standing: psycopg.Connection, database: str) -> Iterator[psycopg.Connection]:
    """A connection of the web role."""
    with psycopg.connect(database, options="-c role=relevo_web") as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def worker(standing: psycopg.Connection, database: str) -> Iterator[psycopg.Connection]:
    """A connection as the engine's loops have it."""
    dsn = with_session(database, role=WORKER_ROLE, settings=ENGINE_SETTINGS)
    with psycopg.connect(dsn, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("statement", CHANGES)
def test_the_web_role_changes_no_limit_and_reads_no_permit(
    web: psycopg.Connection, statement: str
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        web.execute(statement.encode())


@pytest.mark.parametrize("statement", [*CHANGES, "SELECT * FROM relevo.limits"])
def test_an_application_that_enqueues_neither_reads_nor_changes_limits(
    shop: psycopg.Connection, statement: str
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        shop.execute(statement.encode())


@pytest.mark.parametrize("role", ["web", "shop"])
def test_the_engines_own_operations_are_refused_to_them_too(
    request: pytest.FixtureRequest, standing: psycopg.Connection, role: str
) -> None:
    connection: psycopg.Connection = request.getfixturevalue(role)

    for operation in (
        lambda: set_limit(Scope.QUEUE, QUEUE, 0),
        lambda: remove_limit(Scope.QUEUE, QUEUE),
        lambda: prune_permits(10),
        list_limits,
    ):
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            connection.transaction(),
        ):
            run(connection, operation())

    assert [(row.most, row.actor) for row in run(standing, list_limits())] == [(1, "ada")]


def test_the_web_role_sees_what_is_limited(web: psycopg.Connection) -> None:
    found = web.execute("SELECT scope, name, most FROM relevo.limits").fetchall()

    assert found == [("queue", QUEUE, 1)]


@pytest.mark.parametrize("role", ["web", "shop"])
def test_whoever_enqueues_names_the_lane_of_a_limited_kind(
    request: pytest.FixtureRequest, role: str
) -> None:
    """The right to the function is everybody's; red when it is taken away."""
    connection: psycopg.Connection = request.getfixturevalue(role)

    found = connection.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, lane, lane_key)"
        " SELECT %s, %s, relevo.lane_of(%s, 'a'), 'a' RETURNING lane",
        [DEFAULT, KIND, KIND],
    ).fetchone()

    assert found == (lane_of(KIND, "a"),)


def test_a_worker_sets_reads_claims_under_prunes_and_removes(worker: psycopg.Connection) -> None:
    session = a_worker(worker)
    some_jobs(worker, 5, lane=str(lane_of(KIND, None)))
    with worker.transaction():
        run(worker, set_limit(Scope.QUEUE, QUEUE, 3))
        run(worker, set_limit(Scope.KIND, KIND, 9, within=timedelta(seconds=1)))
    assert len(claim_some(worker, session)) == 2
    assert [row.used for row in run(worker, list_limits())] == [3, 3]
    assert run(worker, prune_permits(10)) == 0
    with worker.transaction():
        assert run(worker, remove_limit(Scope.QUEUE, QUEUE))


@pytest.mark.parametrize("table", ["limits", "permits"])
def test_a_worker_empties_no_table_at_one_stroke(worker: psycopg.Connection, table: str) -> None:
    """TRUNCATE of permits would let as many more start as run: only the owner may."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute(f"TRUNCATE relevo.{table}".encode())


def test_limits_and_permits_are_granted_to_these_roles_and_no_others(
    connection: psycopg.Connection,
) -> None:
    found = connection.execute(
        "SELECT c.relname::text, r.rolname::text,"
        " string_agg(g.privilege_type, ' ' ORDER BY g.privilege_type)"
        " FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS g"
        " LEFT JOIN pg_roles AS r ON r.oid = g.grantee"
        " WHERE c.oid IN ('relevo.limits'::regclass, 'relevo.permits'::regclass)"
        " AND g.grantee <> c.relowner GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()

    assert found == [
        ("limits", "relevo_web", "SELECT"),
        ("limits", "relevo_worker", "DELETE INSERT SELECT UPDATE"),
        ("permits", "relevo_worker", "DELETE INSERT SELECT UPDATE"),
    ]
