"""Checks of what migrations made: the ledger, roles, row-level security, indexes, identity."""

from typing import Final

from relevo.api import perform
from relevo.cli.doctor.finding import Check, Finding, Patient, fail, ok, read, warn
from relevo.cli.language import gettext as _
from relevo.cli.ready import describe, say_differences
from relevo.db.dsn import WORKER_ROLE
from relevo.db.identity import check_identity
from relevo.db.migrate import MigrationState, migration_status
from relevo.db.roles import read_roles

INDEXES: Final = (
    "relevo.archive_pkey",
    "relevo.jobs_claim",
    "relevo.jobs_finished",
    "relevo.jobs_key",
    "relevo.jobs_live_key",
    "relevo.jobs_pkey",
    "relevo.jobs_prune",
    "relevo.jobs_waiting_key",
)


def _schema(patient: Patient) -> Finding:
    states = migration_status(patient.database.dsn, patient.lines)
    for state, text, fix in (
        (
            MigrationState.CHANGED,
            _("applied with another content: %(names)s"),
            _("restore the files of these migrations as they were"),
        ),
        (MigrationState.PENDING, _("not applied: %(names)s"), _("run `relevo db migrate`")),
    ):
        names = [f"{s.line} {s.version:04d} {s.name}" for s in states if s.state is state]
        if names:
            return fail(text % {"names": ", ".join(names)}, fix)
    newer = [f"{s.line} {s.version:04d}" for s in states if s.state is MigrationState.UNKNOWN]
    if newer:
        return warn(
            _("the database is newer than this release: %(names)s") % {"names": ", ".join(newer)},
            _("finish the upgrade of this machine"),
        )
    return ok(_("all %(count)d migrations are applied") % {"count": len(states)})


def _roles(patient: Patient) -> Finding:
    states = read_roles(patient.connection)
    missing = [state.name for state in states if not state.exists]
    if missing:
        return fail(
            _("the roles %(names)s do not exist") % {"names": ", ".join(missing)},
            _("run `relevo db migrate`, or give `relevo db sql` to the administrator"),
        )
    powers = read(patient.connection, "read_powers")
    if powers:
        return fail(
            _("%(names)s can see rows of every tenant through other roles or attributes")
            % {"names": ", ".join(name for name, _sees in powers)},
            _("take SUPERUSER, BYPASSRLS and foreign memberships from these roles"),
        )
    others = [state for state in states if not state.may_become]
    if others:
        values = {"user": others[0].user, "names": ", ".join(state.name for state in others)}
        text = _("%(user)s may not work as %(names)s") % values
        fix = _("GRANT %(names)s TO %(user)s, unless others do that work") % values
        return (fail if WORKER_ROLE in values["names"] else warn)(text, fix)
    return ok(_("%(user)s may work as both roles") % {"user": states[0].user})


def _row_security(patient: Patient) -> Finding:
    rows = read(patient.connection, "list_open_tables", {"schemas": patient.schemas})
    if rows:
        names = ", ".join(row[0] for row in rows)
        return fail(
            _("row-level security is off or not forced on %(names)s") % {"names": names},
            _("ALTER TABLE … ENABLE ROW LEVEL SECURITY and FORCE ROW LEVEL SECURITY on each"),
        )
    return ok(_("row-level security is forced on every table with tenants"))


def _indexes(patient: Patient) -> Finding:
    rows = read(patient.connection, "list_indexes", {"schemas": patient.schemas})
    usable = {str(name): bool(is_usable) for name, is_usable in rows}
    invalid = [name for name, is_usable in usable.items() if not is_usable]
    if invalid:
        return fail(
            _("cannot be used: %(names)s") % {"names": ", ".join(invalid)},
            _("REINDEX INDEX CONCURRENTLY each of them"),
        )
    missing = [name for name in INDEXES if name not in usable]
    if missing:
        return fail(
            _("missing: %(names)s") % {"names": ", ".join(missing)},
            _("create them again as `relevo db sql` shows"),
        )
    return ok(_("all %(count)d indexes can be used") % {"count": len(usable)})


def _identity(patient: Patient) -> Finding:
    check = perform(patient.connection, check_identity())
    if not check.matches:
        return fail(
            _("a copy, most likely: %(differences)s") % {"differences": say_differences(check)},
            _("run `relevo db adopt` if deliveries from this database are wanted"),
        )
    return ok(
        _("this is the database that was migrated: %(found)s") % {"found": describe(check.found)}
    )


CHECKS: Final = (
    Check("schema", "schema", _schema, needs_schema=False),
    Check("roles", "roles", _roles, needs_schema=False),
    Check("row_security", "row-level security", _row_security),
    Check("indexes", "indexes", _indexes),
    Check("identity", "identity", _identity),
)
