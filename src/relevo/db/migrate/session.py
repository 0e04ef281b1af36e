"""The one connection that migrates: its settings, its lock, and its patience.

Whatever a database, a role or a DSN sets by default must not change what a
migration means, so everything that could is set here, again before each one.
"""

import random
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import psycopg

from relevo.db.migrate.errors import (
    MigrationBlocked,
    MigrationRefused,
    MigratorsBusy,
    SchemaForbidden,
    ServerReadOnly,
    ServerTooOld,
)
from relevo.db.migrate.ledger import Applied
from relevo.db.migrate.lines import Migration
from relevo.db.statements import Statement, load_statements

T = TypeVar("T")

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

STATEMENTS = load_statements("relevo.db.migrate", "ledger.sql")

# Any constant serves as long as every release uses the same: the letters "relevo".
LOCK_KEY = int.from_bytes(b"relevo", "big")
OLDEST_SERVER = 150000

# row_security = off makes a data migration fail where it would silently see no rows.
SETTINGS = """
SET search_path = '';
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET standard_conforming_strings = on;
SET check_function_bodies = on;
SET row_security = off;
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a migration waits for others.

    Attributes:
        lock_for: Seconds that a statement may wait for a lock, and so may make
            everybody behind it wait.
        build_for: The same for statements outside a transaction, which block nobody.
        tries: How often a migration is begun before it is given up.
        pause: Seconds before the second try; doubled each time, 8 at most.
        turn_for: Seconds to wait while somebody else migrates the database.
    """

    lock_for: float = 0.5
    build_for: float = 600
    tries: int = 30
    pause: float = 0.5
    turn_for: float = 3600


def query(
    connection: Connection, statement: Statement, params: dict[str, object] | None = None
) -> list[tuple[Any, ...]]:
    """Run a statement of the ledger and return its rows."""
    cursor = connection.execute(statement.sql.encode(), params)
    return cursor.fetchall() if cursor.description else []


@contextmanager
def migrator(dsn: str, patience: Patience) -> Generator[Connection, None, None]:
    """A connection that commits by itself and is the only migrator of its database.

    Raises:
        MigratorsBusy: Somebody else kept migrating.
        ServerTooOld: The server is older than 15.
        ServerReadOnly: The server is a standby.
        SchemaForbidden: This role cannot own the schema.
    """
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        settle(connection, patience.lock_for)
        if connection.info.server_version < OLDEST_SERVER:
            raise ServerTooOld(version=connection.info.parameter_status("server_version"))
        _require_server(connection)
        _take_turn(connection, patience)
        yield connection


def settle(connection: Connection, lock_for: float) -> None:
    """Set everything that could change what a migration means."""
    connection.execute(SETTINGS.encode())
    connection.execute(f"SET lock_timeout = {int(lock_for * 1000)}".encode())
    if connection.info.server_version >= 170000:  # noqa: PLR2004 - the release that added it
        connection.execute("SET transaction_timeout = 0")


def read_ledger(connection: Connection) -> list[Applied]:
    """What was applied; nothing where there is no ledger yet."""
    *_, has_ledger = query(connection, STATEMENTS["read_server"])[0]
    rows = query(connection, STATEMENTS["read_ledger"]) if has_ledger else []
    return [Applied(*row) for row in rows]


def persist(patience: Patience, migration: Migration, work: Callable[[], T]) -> T:
    """Do `work` again, a bounded number of times, while others hold its locks.

    Raises:
        MigrationBlocked: The locks did not come free.
        MigrationRefused: The database refused it for another reason.
    """
    at_fault = {
        "line": migration.line,
        "version": migration.version,
        "name": migration.name,
    }
    pause = patience.pause
    for tries in range(1, patience.tries + 1):
        try:
            return work()
        except (
            psycopg.errors.LockNotAvailable,
            psycopg.errors.DeadlockDetected,
            psycopg.errors.SerializationFailure,
        ) as error:
            if tries == patience.tries:
                raise MigrationBlocked(tries=tries, **at_fault) from error
        except psycopg.DatabaseError as error:
            hint = f" ({error.diag.message_hint})" if error.diag.message_hint else ""
            reason = (error.diag.message_primary or str(error).strip()) + hint
            raise MigrationRefused(reason=reason, **at_fault) from error
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads the tries, guards nothing
        pause = min(pause * 2, 8)
    raise AssertionError  # the last try returned or raised


def _require_server(connection: Connection) -> None:
    user, database, is_standby, _, may_change, _ = query(connection, STATEMENTS["read_server"])[0]
    if is_standby:
        raise ServerReadOnly
    if not may_change:
        raise SchemaForbidden(user=user, database=database)


def _take_turn(connection: Connection, patience: Patience) -> None:
    """Poll for the lock: a statement that waited would stall a concurrent index build."""
    began = time.monotonic()
    pause = 0.02
    while not query(connection, STATEMENTS["lock_migrations"], {"key": LOCK_KEY})[0][0]:
        waited = time.monotonic() - began
        if waited > patience.turn_for:
            raise MigratorsBusy(waited=waited)
        time.sleep(pause)
        pause = min(pause * 2, 1)
