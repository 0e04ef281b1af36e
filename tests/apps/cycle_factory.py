"""Organisations, drafts and dumps for the tests of evaluation cycles."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
from psycopg import sql

from relevo.db.drivers import run
from relevo.db.operation import Operation
from relevo_apps.evaluations import service
from relevo_apps.evaluations.generator import generate_organisation
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import Cycle, Relation

TENANT = UUID(int=1)
ACTOR = "ana@example.com"
USUAL = (Relation.SELF, Relation.MANAGER, Relation.UPWARD)

SMALL = """id,name,email,manager
1,Ana Álvarez,ana@example.com,
2,Bruno Díaz,bruno@example.com,1
3,Célia Nóbrega,celia@example.com,1
4,Dan Young,dan@example.com,2
"""


def as_role(dsn: str, role: str | None = None, tenant: UUID | None = None) -> psycopg.Connection:
    """Open a connection that is what a login with this role would be."""
    options = [f"-c role={role}"] if role else []
    if tenant:
        options.append(f"-c relevo.tenant={tenant}")
    opened = psycopg.connect(dsn, options=" ".join(options))
    # The services refuse any other, so callers ask for it whatever the database's default.
    opened.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return opened


def import_text(connection: psycopg.Connection, text: str, tenant: UUID = TENANT, **options):
    return run(connection, service.import_people(tenant, read_people(text.encode()), **options))


def an_organisation(connection: psycopg.Connection, size: int, seed: int = 1) -> None:
    report = import_text(connection, generate_organisation(size, seed=seed).csv())
    assert report.created == size


def a_draft(
    connection: psycopg.Connection,
    name: str = "2025",
    *,
    tenant: UUID = TENANT,
    rules: tuple[Relation, ...] = USUAL,
    people: list[str] | None = None,
    generated: bool = True,
) -> Cycle:
    """A draft in which everybody, or the people named, take part."""
    cycle = run(connection, service.create_cycle(tenant, name, actor=ACTOR, rules=rules))
    run(connection, service.add_participants(tenant, cycle.id, people, actor=ACTOR))
    if generated:
        run(connection, service.generate_evaluations(tenant, cycle.id, actor=ACTOR))
    return cycle


def a_tenant(connection: psycopg.Connection, number: int) -> UUID:
    tenant = UUID(int=number)
    connection.execute(
        "INSERT INTO relevo.tenants (id, slug, name) VALUES (%s, %s, %s)",
        (tenant, f"tenant-{number}", f"Tenant {number}"),
    )
    return tenant


def activation(cycle: Cycle, tenant: UUID = TENANT, actor: str = ACTOR, **options):
    return service.activate(tenant, cycle.id, actor=actor, **options)


def states(connection: psycopg.Connection, cycle: Cycle) -> dict[str, int]:
    """How many evaluations of a cycle are in which state."""
    rows = connection.execute(
        "SELECT state, count(*) FROM evaluations.evaluations WHERE cycle_id = %s GROUP BY state",
        (cycle.id,),
    )
    return dict(rows.fetchall())


def state_of(connection: psycopg.Connection, cycle: Cycle) -> str:
    row = connection.execute("SELECT state FROM evaluations.cycles WHERE id = %s", (cycle.id,))
    return row.fetchone()[0]


def jobs_of(connection: psycopg.Connection, cycle: Cycle) -> list[tuple]:
    """The evaluator, state, attempt and due time of each notification of a cycle."""
    rows = connection.execute(
        "SELECT payload ->> 'evaluator_id', state, attempt, available_at FROM relevo.jobs"
        " WHERE aggregate_id = %s::text ORDER BY id",
        (cycle.id,),
    )
    return rows.fetchall()


def dump(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Every row of every table of both schemas that the role may read, as text."""
    tables = connection.execute(
        "SELECT schemaname, tablename FROM pg_tables"
        " WHERE schemaname IN ('relevo', 'evaluations')"
        " AND has_table_privilege(format('%I.%I', schemaname, tablename), 'SELECT') ORDER BY 1, 2"
    ).fetchall()
    return {
        f"{schema}.{table}": [
            row[0]
            for row in connection.execute(
                sql.SQL("SELECT r::text FROM {} AS r ORDER BY 1").format(
                    sql.Identifier(schema, table)
                )
            )
        ]
        for schema, table in tables
    }


def noting(operation: Operation, names: list[str]) -> Operation:
    """Run the operation and note the name of each statement."""
    try:
        call = next(operation)
        while True:
            names.append(call.statement.name)
            try:
                rows = yield call
            except BaseException as error:  # noqa: BLE001 - handed on to the operation
                call = operation.throw(error)
            else:
                call = operation.send(rows)
    except StopIteration as stop:
        return stop.value


def until(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    """Wait for a condition, and fail when it does not come about."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        pause.wait(0.002)


def is_blocked(watcher: psycopg.Connection, pid: int) -> bool:
    row = watcher.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", (pid,)).fetchone()
    return bool(row and row[0])


@contextmanager
def in_thread(work: Callable[[], object]) -> Iterator[list[object]]:
    """Run work beside the test; its answer, or its error, is in the list afterwards."""
    answers: list[object] = []

    def record() -> None:
        try:
            answers.append(work())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            answers.append(error)

    thread = threading.Thread(target=record)
    thread.start()
    try:
        yield answers
    finally:
        thread.join(timeout=60)
        assert not thread.is_alive()
