"""Bring a database to the schema that this release needs, and say how it stands.

Migrations are numbered .sql files in lines, one line per owner, and go forward
only. Each is one transaction that also records itself, so a kill leaves it whole
or absent. Nothing is written while files and database disagree.
"""

from relevo.db.migrate.errors import (
    DatabaseNewer,
    IndexInvalid,
    LinesWrong,
    MigrationBlocked,
    MigrationChanged,
    MigrationControlsTransaction,
    MigrationError,
    MigrationMisnamed,
    MigrationMisnumbered,
    MigrationNotRepeatable,
    MigrationOutOfOrder,
    MigrationRefused,
    MigratorsBusy,
    SchemaForbidden,
    ServerReadOnly,
    ServerTooOld,
)
from relevo.db.migrate.ledger import MigrationState, MigrationStatus
from relevo.db.migrate.lines import ENGINE, Line
from relevo.db.migrate.running import Step, migrate, migration_status
from relevo.db.migrate.script import migration_script
from relevo.db.migrate.session import Patience

__all__ = [
    "ENGINE",
    "DatabaseNewer",
    "IndexInvalid",
    "Line",
    "LinesWrong",
    "MigrationBlocked",
    "MigrationChanged",
    "MigrationControlsTransaction",
    "MigrationError",
    "MigrationMisnamed",
    "MigrationMisnumbered",
    "MigrationNotRepeatable",
    "MigrationOutOfOrder",
    "MigrationRefused",
    "MigrationState",
    "MigrationStatus",
    "MigratorsBusy",
    "Patience",
    "SchemaForbidden",
    "ServerReadOnly",
    "ServerTooOld",
    "Step",
    "migrate",
    "migration_script",
    "migration_status",
]
