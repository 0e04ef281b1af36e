"""What was applied, what is missing, and whether the two agree.

The comparison is pure: it sees the files and the rows of the ledger and decides
before anything is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from relevo.db.migrate.errors import DatabaseNewer, MigrationChanged, MigrationOutOfOrder
from relevo.db.migrate.lines import Migration


class MigrationState(StrEnum):
    """How a migration stands between the files and the database."""

    APPLIED = "applied"
    PENDING = "pending"
    CHANGED = "changed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Applied:
    """One row of `relevo.migrations`."""

    line: str
    version: int
    name: str
    checksum: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """One migration and how it stands.

    Attributes:
        line: The name of its line.
        version: Its number.
        name: Its name.
        state: Applied, pending, changed since it was applied, or unknown to these files.
        applied_at: When it was applied, None while it is pending.
    """

    line: str
    version: int
    name: str
    state: MigrationState
    applied_at: datetime | None


def compare(
    known: Mapping[str, Sequence[Migration]], applied: Sequence[Applied]
) -> list[MigrationStatus]:
    """Say of every migration of the known lines how it stands.

    Lines that only the database knows belong to other applications and are left out.
    """
    rows = {(row.line, row.version): row for row in applied}
    found: list[MigrationStatus] = []
    for line, migrations in known.items():
        for migration in migrations:
            row = rows.get((line, migration.version))
            when = row.applied_at if row else None
            name, version = migration.name, migration.version
            found.append(MigrationStatus(line, version, name, _state(migration, row), when))
        newer = (row for row in applied if row.line == line and row.version > len(migrations))
        found.extend(
            MigrationStatus(line, row.version, row.name, MigrationState.UNKNOWN, row.applied_at)
            for row in newer
        )
    return found


def _state(migration: Migration, row: Applied | None) -> MigrationState:
    if row is None:
        return MigrationState.PENDING
    same = (row.name, row.checksum) == (migration.name, migration.checksum)
    return MigrationState.APPLIED if same else MigrationState.CHANGED


def plan(known: Mapping[str, Sequence[Migration]], applied: Sequence[Applied]) -> list[Migration]:
    """Choose what to apply, in order; refuse when files and database disagree.

    Raises:
        DatabaseNewer: The database has a migration that the files do not.
        MigrationChanged: The file of an applied migration was edited.
        MigrationOutOfOrder: A migration is missing before one that was applied.
    """
    pending: list[Migration] = []
    last_pending: MigrationStatus | None = None
    for status in compare(known, applied):
        at_fault = {"line": status.line, "version": status.version, "name": status.name}
        if status.state is MigrationState.UNKNOWN:
            raise DatabaseNewer(**at_fault)
        if status.state is MigrationState.CHANGED:
            raise MigrationChanged(**at_fault)
        if status.state is MigrationState.PENDING:
            last_pending = last_pending if _same_line(last_pending, status) else status
            pending.append(known[status.line][status.version - 1])
        elif last_pending and _same_line(last_pending, status):
            missing = last_pending
            raise MigrationOutOfOrder(line=missing.line, version=missing.version, name=missing.name)
    return pending


def _same_line(one: MigrationStatus | None, other: MigrationStatus) -> bool:
    return one is not None and one.line == other.line
