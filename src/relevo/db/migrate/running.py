"""Apply what is missing, one migration at a time, and survive a kill between any two statements."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from relevo.db.drivers import run
from relevo.db.identity import pin_identity
from relevo.db.migrate.errors import IndexInvalid
from relevo.db.migrate.ledger import MigrationStatus, compare, plan
from relevo.db.migrate.lines import Index, Line, Migration, index_built_by, load_lines
from relevo.db.migrate.session import (
    STATEMENTS,
    Connection,
    Patience,
    migrator,
    persist,
    query,
    read_ledger,
    settle,
)
from relevo.db.roles import ensure_roles


@dataclass(frozen=True, slots=True)
class Step:
    """One migration that was applied now.

    Attributes:
        line: The name of its line.
        version: Its number.
        name: Its name.
        seconds: How long it took, waiting for locks included.
    """

    line: str
    version: int
    name: str
    seconds: float


def migrate(
    dsn: str,
    lines: Sequence[Line],
    *,
    environment: str | None = None,
    report: Callable[[Step], None] | None = None,
    patience: Patience | None = None,
) -> list[Step]:
    """Apply every migration that is missing, the engine's line first.

    Creates the roles and the schema where they are missing, and pins the
    database's identity if nobody did. Two at once both end well: the second
    waits and finds nothing to do. After a kill, run it again.

    Args:
        dsn: A direct connection as the role that owns, or shall own, the schema.
        lines: The lines of the applications; the engine's own is always included.
        environment: The marker to pin; by default `RELEVO_ENVIRONMENT` or the host's name.
        report: Called after each migration is committed.
        patience: How long to wait for locks and for other migrators.

    Returns:
        What was applied now, in order; empty when the database was up to date.

    Raises:
        MigrationError: Nothing was written if files and database disagree or a right
            is missing; if a migration was blocked or refused, those before it stay.
        RolesMissing: Nothing was written; an administrator has to create the roles.
    """
    patience = patience or Patience()
    known = load_lines(lines)
    with migrator(dsn, patience) as connection:
        pending = plan(known, read_ledger(connection))
        ensure_roles(connection)
        _create_ledger(connection)
        steps: list[Step] = []
        for migration in pending:
            began = time.monotonic()
            _apply(connection, migration, patience)
            step = Step(migration.line, migration.version, migration.name, time.monotonic() - began)
            steps.append(step)
            if report:
                report(step)
        settle(connection, patience.lock_for)
        run(connection, pin_identity(environment))
        return steps


def migration_status(dsn: str, lines: Sequence[Line]) -> list[MigrationStatus]:
    """Say how every migration stands: applied, pending, changed or unknown; writes nothing."""
    known = load_lines(lines)
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        return compare(known, read_ledger(connection))


def _create_ledger(connection: Connection) -> None:
    """Create the schema and the ledger where they are missing."""
    _, _, _, has_schema, _, has_ledger = query(connection, STATEMENTS["read_server"])[0]
    with connection.transaction():
        if not has_schema:
            query(connection, STATEMENTS["create_schema"])
        if not has_ledger:
            query(connection, STATEMENTS["create_ledger"])


def _apply(connection: Connection, migration: Migration, patience: Patience) -> None:
    if migration.has_transaction:
        settle(connection, patience.lock_for)
        persist(patience, migration, lambda: _apply_whole(connection, migration))
        return
    for statement in migration.statements:
        settle(connection, patience.build_for)

        def work(statement: str = statement) -> None:
            _apply_alone(connection, statement)

        persist(patience, migration, work)
    _record(connection, migration)


def _apply_whole(connection: Connection, migration: Migration) -> None:
    with connection.transaction():
        query(connection, STATEMENTS["hold_vacuum_off"])
        connection.execute(migration.text.encode())
        _record(connection, migration)


def _apply_alone(connection: Connection, statement: str) -> None:
    """Run one repeatable statement; an index that a kill left half built is built again."""
    index = index_built_by(statement)
    if index and (valid := _is_valid(connection, index)) is not None:
        if valid:
            return  # built by a run that was killed before it could say so
        drop = sql.SQL("DROP INDEX CONCURRENTLY {}")
        connection.execute(drop.format(sql.Identifier(index.schema, index.name)))
    connection.execute(statement.encode())
    if index and not _is_valid(connection, index):
        raise IndexInvalid(index=f"{index.schema}.{index.name}")


def _is_valid(connection: Connection, index: Index) -> bool | None:
    """Whether the index can be used; None when there is none."""
    params: dict[str, object] = {"schema": index.schema, "name": index.name}
    rows = query(connection, STATEMENTS["find_index"], params)
    return bool(rows[0][0]) if rows else None


def _record(connection: Connection, migration: Migration) -> None:
    params: dict[str, object] = {
        "line": migration.line,
        "version": migration.version,
        "name": migration.name,
        "checksum": migration.checksum,
    }
    query(connection, STATEMENTS["record_migration"], params)
