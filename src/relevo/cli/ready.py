"""Whether workers may deliver from a database: its schema, its identity and its tenants."""

from collections.abc import Sequence

from relevo.api import perform
from relevo.app import Relevo
from relevo.cli.database import Database
from relevo.cli.errors import MigrationsPending, OtherDatabase, SchemaMissing, TenancyDiffers
from relevo.cli.language import gettext as _
from relevo.db.dsn import WORKER_ROLE
from relevo.db.identity import Identity, IdentityCheck, check_identity, read_mode
from relevo.db.migrate import Line, MigrationState, migration_status


def require_ready(database: Database, lines: Sequence[Line], app: Relevo) -> None:
    """Refuse a database that a worker of this release must not deliver from.

    Args:
        database: Where the jobs are.
        lines: The lines of migrations of this installation.
        app: Whose jobs the worker would run.

    A migration that the database has and this release does not is no refusal: workers
    of two releases run side by side while one replaces the other.

    Raises:
        SchemaMissing: Nobody has migrated it.
        MigrationsPending: This release needs more than it has.
        OtherDatabase: It is a copy, or was pinned in another environment.
        TenancyDiffers: One of the two is for one tenant, the other for many.
        DatabaseUnreachable: Nobody answers, or nobody is let in.
        RoleNotAllowed: The login may not work as a worker.
    """
    require_schema(database, lines)
    with database.connect(WORKER_ROLE) as connection:
        check = perform(connection, check_identity())
        mode = perform(connection, read_mode())
    if not check.matches:
        raise OtherDatabase(differences=say_differences(check), check=check)
    if app.tenants != mode.value:
        raise TenancyDiffers(application=app.tenants, installation=mode.value)


def require_schema(database: Database, lines: Sequence[Line]) -> None:
    """Refuse a database that lacks migrations of this release."""
    database.require()
    states = migration_status(database.dsn, lines)
    pending = [each for each in states if each.state is MigrationState.PENDING]
    if len(pending) == len(states):
        raise SchemaMissing(reason="relevo.migrations")
    if pending:
        first = f"{pending[0].line} {pending[0].version:04d} {pending[0].name}"
        raise MigrationsPending(count=len(pending), first=first)


def say_differences(check: IdentityCheck) -> str:
    """Say what tells the database at hand from the one that was pinned, each by its name."""
    if check.pinned is None:
        return _("nothing was pinned")
    names = {
        "environment": _("environment"),
        "database": _("database"),
        "system_identifier": _("system"),
    }
    return ", ".join(
        _("%(name)s: pinned %(pinned)s, found %(found)s")
        % {
            "name": said,
            "pinned": getattr(check.pinned, name),
            "found": getattr(check.found, name),
        }
        for name, said in names.items()
        if name in check.differences
    )


def describe(identity: Identity | None) -> str:
    """Say an identity in one line."""
    if identity is None:
        return "-"
    return f"{identity.database} / {identity.environment} / {identity.system_identifier}"
