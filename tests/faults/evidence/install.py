"""Put the evidence into a database: a schema of its own, and triggers on the engine's tables.

It fits whatever version of the schema it meets: columns that a version lacks are NULL in
the evidence. Install it again after a migration that adds some.
"""

from pathlib import Path

import psycopg
from psycopg import sql

EVENTS = Path(__file__).with_name("events.sql")

COLUMNS = {
    "tenant_id": "uuid",
    "id": "bigint",
    "state": "text",
    "attempt": "integer",
    "worker": "bigint",
    "excused": "integer",
    "losses": "integer",
    "max_attempts": "integer",
    "priority": "integer",
    "queue": "text",
    "kind": "text",
    "lane": "uuid",
    "lane_key": "text",
    "aggregate_id": "text",
    "waiting_key": "text",
    "live_key": "text",
    "key": "text",
    "available_at": "timestamptz",
    "started_at": "timestamptz",
    "finished_at": "timestamptz",
    "cancel_requested_at": "timestamptz",
    "requeued_at": "timestamptz",
    "prune_at": "timestamptz",
}
"""What an event keeps of a row; `id` is its `job_id`."""

# All of the first version's columns but the long ones, which only an insert gives. Later
# columns stay out, so that the digest of a row outlives a migration.
MARKED = """
    tenant_id id available_at created_at started_at finished_at key_expires_at
    cancel_requested_at requeued_at worker run_id lane strand attempt excused losses
    max_attempts priority live state outcome queue kind aggregate_id waiting_key
    live_key key actor requeued_by step last_error
"""

PRESENT = (
    "SELECT attname FROM pg_attribute"
    " WHERE attrelid = 'relevo.jobs'::regclass AND attnum > 0 AND NOT attisdropped"
)


def install(dsn: str) -> None:
    """Install the evidence, or bring it up to the schema of now.

    Args:
        dsn: Of the owner, who sees the rows of all tenants (a superuser, or by a policy).
    """
    with psycopg.connect(dsn) as connection:
        present = {name for (name,) in connection.execute(PRESENT)}
        connection.execute(sql.SQL(EVENTS.read_text("utf-8")).format(**_filling(present)))


def _filling(present: set[str]) -> dict[str, sql.Composable]:
    names = ["job_id" if name == "id" else name for name in COLUMNS]
    return {
        "columns": sql.SQL(", ").join(map(sql.Identifier, names)),
        **{f"{row}_values": _values(row, present) for row in ("new", "old", "found")},
        **{f"{row}_mark": _mark(row) for row in ("new", "old", "found")},
    }


def _values(row: str, present: set[str]) -> sql.Composable:
    return sql.SQL(", ").join(
        sql.Identifier(row, name) if name in present else sql.SQL(f"NULL::{kind}")
        for name, kind in COLUMNS.items()
    )


def _mark(row: str) -> sql.Composable:
    values = sql.SQL(", ").join(sql.Identifier(row, name) for name in MARKED.split())
    return sql.SQL("hash_record_extended(ROW({}), 0)").format(values)
