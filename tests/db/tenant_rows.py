"""A row of a tenant in every table that has tenants, and copies of it that belong elsewhere."""

from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

# One statement for each table, in the order in which the tables need each other.
ROWS = {
    "relevo.jobs": "INSERT INTO relevo.jobs (tenant_id, kind) VALUES (%(tenant)s, 'mail.send')",
    "relevo.attempts": """
        INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome)
        SELECT tenant_id, id, 1, 'retried' FROM relevo.jobs WHERE tenant_id = %(tenant)s
    """,
    "relevo.archive": """
        INSERT INTO relevo.archive (
            tenant_id, id, available_at, created_at, finished_at, attempt, excused, losses,
            max_attempts, priority, outcome, queue, kind, payload, attempts
        )
        VALUES (
            %(tenant)s, 1, now(), now(), now(), 1, 0, 0, 6, 2, 'completed', 'q', 'k', '{}', '[]'
        )
    """,
    "evaluations.people": """
        INSERT INTO evaluations.people (tenant_id, external_id, full_name, sort_key)
        VALUES (%(tenant)s, '1', 'Ada', 'ada'), (%(tenant)s, '2', 'Bo', 'bo')
    """,
    "evaluations.manager_edges": """
        INSERT INTO evaluations.manager_edges (tenant_id, person_id, manager_id, starts_on, ends_on)
        SELECT p.tenant_id, p.id, m.id, '2025-01-01', '2025-02-01'
        FROM evaluations.people p JOIN evaluations.people m ON m.tenant_id = p.tenant_id
        WHERE p.tenant_id = %(tenant)s AND p.external_id = '1' AND m.external_id = '2'
    """,
    "evaluations.cycles": """
        INSERT INTO evaluations.cycles (tenant_id, name, created_by, rules)
        VALUES (%(tenant)s, 'spring', 'ada', '{self}')
    """,
    "evaluations.participants": """
        INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)
        SELECT c.tenant_id, c.id, p.id, 'ada'
        FROM evaluations.cycles c JOIN evaluations.people p ON p.tenant_id = c.tenant_id
        WHERE c.tenant_id = %(tenant)s AND p.external_id = '1'
    """,
    "evaluations.evaluations": """
        INSERT INTO evaluations.evaluations
            (tenant_id, cycle_id, participant_id, evaluator_id, relation)
        SELECT c.tenant_id, c.cycle_id, c.person_id, p.id, 'manager'
        FROM evaluations.participants c JOIN evaluations.people p ON p.tenant_id = c.tenant_id
        WHERE c.tenant_id = %(tenant)s AND p.external_id = '2'
    """,
    "evaluations.cycle_events": """
        INSERT INTO evaluations.cycle_events (tenant_id, cycle_id, what, actor)
        SELECT tenant_id, id, 'created', 'ada'
        FROM evaluations.cycles WHERE tenant_id = %(tenant)s
    """,
}


@dataclass(frozen=True)
class Link:
    """A foreign key between two tables of a tenant."""

    table: str
    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]


def add_tenant(connection: psycopg.Connection, tenant: UUID) -> None:
    """A tenant with a row in every table; the session must see every tenant."""
    slug = f"t{tenant.hex[-8:]}"
    connection.execute("SELECT relevo.make_archive_month(now())")
    connection.execute("INSERT INTO relevo.tenants VALUES (%s, %s, %s)", [tenant, slug, slug])
    for statement in ROWS.values():
        assert connection.execute(statement.encode(), {"tenant": tenant}).rowcount > 0


def name_of(table: str) -> sql.Identifier:
    return sql.Identifier(*table.split("."))


def columns(connection: psycopg.Connection, table: str) -> list[str]:
    """The columns that an insert may name."""
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"
        " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
        [table],
    )
    return [row[0] for row in found]


def links(connection: psycopg.Connection) -> list[Link]:
    """Every foreign key but those that point at the tenant itself."""
    found = connection.execute(
        """
        SELECT c.conrelid::regclass::text, array_agg(a.attname::text ORDER BY k.place),
            c.confrelid::regclass::text, array_agg(b.attname::text ORDER BY k.place)
        FROM pg_constraint c
        CROSS JOIN unnest(c.conkey, c.confkey) WITH ORDINALITY AS k (here, there, place)
        JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.here
        JOIN pg_attribute b ON b.attrelid = c.confrelid AND b.attnum = k.there
        WHERE c.contype = 'f' AND c.confrelid <> 'relevo.tenants'::regclass
        GROUP BY c.oid
        ORDER BY c.conname
        """
    )
    return [Link(table, tuple(here), target, tuple(there)) for table, here, target, there in found]


def insert_row(connection: psycopg.Connection, table: str, row: dict[str, object]) -> None:
    """Insert a row that `first_row` answered, with whatever was changed in it."""
    names = columns(connection, table)
    statement = sql.SQL(
        "INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {names}"
        " FROM jsonb_populate_record(NULL::{table}, %s::jsonb)"
    ).format(table=name_of(table), names=sql.SQL(", ").join(map(sql.Identifier, names)))
    connection.execute(statement, [Jsonb(row)])


def first_row(connection: psycopg.Connection, table: str, tenant: UUID) -> dict[str, object]:
    """One row of the tenant, as JSON has it."""
    statement = sql.SQL("SELECT to_jsonb(t) FROM {} AS t WHERE tenant_id = %s LIMIT 1")
    return connection.execute(statement.format(name_of(table)), [tenant]).fetchone()[0]
