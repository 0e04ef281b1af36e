"""Valid rows for the state that a test asks for; a test names only what it is about."""

import json
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.settle import settle
from relevo.model.backoff import STANDARD, Backoff
from relevo.model.job import ClaimedJob, JobState
from relevo.model.kind import Kind
from relevo.model.payload import PayloadSchema
from relevo.model.ring import Ring
from relevo.model.settlement import Action, Settlement

KIND = "test.work"
QUEUE = "default"

_numbers = count(1)

_FINAL = ("completed", "failed", "cancelled")


def a_tenant(connection: psycopg.Connection, tenant_id: UUID | None = None) -> UUID:
    """A new tenant; pass an id where its place among others matters."""
    tenant_id = tenant_id or uuid4()
    slug = f"t{next(_numbers)}-{tenant_id.hex[:6]}"
    connection.execute("INSERT INTO relevo.tenants VALUES (%s, %s, %s)", [tenant_id, slug, slug])
    return tenant_id


def a_worker(
    connection: psycopg.Connection,
    *,
    lease: float = 30.0,
    queues: tuple[str, ...] = (QUEUE,),
    kinds: tuple[str, ...] = (KIND,),
    idle: bool = False,
) -> int:
    """A session; a negative lease has run out already."""
    found = connection.execute(
        "INSERT INTO relevo.workers (name, queues, kinds, concurrency, version, expires_at, idle)"
        " VALUES (%s, %s, %s, 1, '0', clock_timestamp() + %s, %s) RETURNING id",
        [f"w{next(_numbers)}", list(queues), list(kinds), timedelta(seconds=lease), idle],
    )
    return found.fetchone()[0]


def a_job(connection: psycopg.Connection, *, state: str = "available", **columns: Any) -> int:
    """A job in the given state, with everything that state implies; answers its id."""
    row: dict[str, Any] = {"tenant_id": DEFAULT_TENANT, "kind": KIND, "state": state}
    if state == "running":
        row |= {"attempt": 1, "started_at": "now"}
        row["worker"] = columns["worker"] if "worker" in columns else a_worker(connection)
    if state in _FINAL:
        row |= {"attempt": 1, "live": False, "outcome": state, "finished_at": "now"}
    row |= columns
    for name, value in row.items():
        if isinstance(value, dict | list) and name in ("payload", "headers", "result"):
            row[name] = json.dumps(value)
    statement = sql.SQL("INSERT INTO relevo.jobs ({}) VALUES ({}) RETURNING id").format(
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(sql.Placeholder() * len(row)),
    )
    return connection.execute(statement, list(row.values())).fetchone()[0]


def some_jobs(connection: psycopg.Connection, number: int, **columns: Any) -> None:
    """Many due jobs, inserted in one statement in the order of their ids."""
    row = {"tenant_id": DEFAULT_TENANT, "kind": KIND, **columns}
    statement = sql.SQL(
        "INSERT INTO relevo.jobs ({}) SELECT {} FROM generate_series(1, {})"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(map(sql.Literal, row.values())),
        sql.Literal(number),
    )
    connection.execute(statement)


def job_row(connection: psycopg.Connection, job_id: int) -> dict[str, Any]:
    """Every column of one job."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute("SELECT * FROM relevo.jobs WHERE id = %s", [job_id]).fetchone()
    assert found is not None
    return found


def history(connection: psycopg.Connection, job_id: int) -> list[dict[str, Any]]:
    """The attempts of one job, oldest first."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("SELECT * FROM relevo.attempts WHERE job_id = %s ORDER BY attempt", [job_id])
        return cursor.fetchall()


def states(connection: psycopg.Connection) -> Mapping[str, int]:
    """How many jobs stand in each state."""
    found = connection.execute("SELECT state, count(*) FROM relevo.jobs GROUP BY 1").fetchall()
    return dict(found)


def value(connection: psycopg.Connection, query: str, *params: object) -> Any:
    """The only value of a query."""
    return connection.execute(query.encode(), params or None).fetchone()[0]


def claim_some(
    connection: psycopg.Connection,
    worker: int,
    limit: int = 100,
    *,
    queue: str = QUEUE,
    kinds: tuple[str, ...] = (KIND,),
    ring: Ring | None = None,
) -> list[ClaimedJob]:
    """Claim as a worker does; without a ring as one that has just started."""
    return run(connection, claim(worker, queue, kinds, limit, ring or Ring()))


def settle_some(
    connection: psycopg.Connection,
    worker: int,
    jobs: list[ClaimedJob],
    action: Action = Action.COMPLETED,
    **values: Any,
) -> dict[int, JobState]:
    """Settle claimed jobs alike, and say by id where each stands."""
    batch = [Settlement(job.tenant_id, job.id, job.attempt, action, **values) for job in jobs]
    queue_of = {job.id: QUEUE for job in jobs}
    settled = run(connection, settle(worker, queue_of, batch))
    return {job_id: state for (_, job_id), state in settled.items()}


def make_due(connection: psycopg.Connection, job_id: int) -> None:
    """Make a waiting job due instead of moving a clock."""
    connection.execute("UPDATE relevo.jobs SET available_at = now() WHERE id = %s", [job_id])


def a_kind(handler: Any = None, *, retry: Backoff = STANDARD, **rules: Any) -> Kind:
    """A kind of job whose handler takes nothing, or the given handler."""

    def work(_context: object) -> None:
        """Do nothing."""

    handler = handler or work
    return Kind(KIND, handler, PayloadSchema(KIND, handler), retry=retry, **rules)


def a_claim(**fields: Any) -> ClaimedJob:
    """A claimed job that no database knows."""
    given: dict[str, Any] = {
        "tenant_id": DEFAULT_TENANT,
        "id": 1,
        "attempt": 1,
        "excused": 0,
        "losses": 0,
        "max_attempts": 6,
        "kind": KIND,
        "payload": "{}",
        "aggregate_id": None,
        "headers": None,
        "actor": None,
        "lane": UUID(int=0),
        "priority": 2,
        "available_at": None,
        "started_at": None,
    }
    return ClaimedJob(**{**given, **fields})
