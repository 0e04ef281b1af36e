"""Work that must happen later, once, and in full, kept in the PostgreSQL you already have.

These are the public names, and beside them those of two rooms: `relevo.cli` for who adds
commands, and each package of `relevo.integrations`. Everything else may change without
notice. Each name is imported when it is first asked for, so that a command that only
prints its help stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from relevo.version import VERSION

if TYPE_CHECKING:
    from relevo.api import AsyncConnection, SyncConnection, perform
    from relevo.app import JobKind, Relevo
    from relevo.db.drivers.errors import NotInTransaction, UnknownConnection
    from relevo.db.dsn import WEB_ROLE
    from relevo.db.embedded import Embedded, EmbeddedError, default_root
    from relevo.db.migrate import ENGINE, Line, MigrationError, migrate
    from relevo.db.operation import Call, Operation, Row, Rows
    from relevo.db.session import set_tenant
    from relevo.db.statements import Statement, load_statements
    from relevo.engine.jobs.again import Cancelled, cancel_jobs, requeue_jobs
    from relevo.engine.jobs.enqueue import wake
    from relevo.engine.jobs.errors import JobNotFound, LeaseLost
    from relevo.engine.tenants import (
        TenantExists,
        TenantNotFound,
        add_tenant,
        resolve_tenant,
    )
    from relevo.errors import RelevoError
    from relevo.i18n import Translator, translator
    from relevo.loops.context import Context
    from relevo.loops.settings import WorkerSettings
    from relevo.loops.worker import Worker
    from relevo.model.backoff import DELIVERY, STANDARD, Backoff
    from relevo.model.errors import InvalidOption, PayloadError, TenantRequired
    from relevo.model.ids import DEFAULT_TENANT, uuid7
    from relevo.model.job import Enqueued, JobState, KeyMode
    from relevo.model.limit import Limit
    from relevo.model.options import Options
    from relevo.model.outcome import Cancel, Fail, Outage, Outcome, PermanentError, Retry, Snooze
    from relevo.model.retention import KEEP, Retention

__version__ = VERSION

__all__ = [
    "DEFAULT_TENANT",
    "DELIVERY",
    "ENGINE",
    "KEEP",
    "STANDARD",
    "WEB_ROLE",
    "AsyncConnection",
    "Backoff",
    "Call",
    "Cancel",
    "Cancelled",
    "Context",
    "Embedded",
    "EmbeddedError",
    "Enqueued",
    "Fail",
    "InvalidOption",
    "JobKind",
    "JobNotFound",
    "JobState",
    "KeyMode",
    "LeaseLost",
    "Limit",
    "Line",
    "MigrationError",
    "NotInTransaction",
    "Operation",
    "Options",
    "Outage",
    "Outcome",
    "PayloadError",
    "PermanentError",
    "Relevo",
    "RelevoError",
    "Retention",
    "Retry",
    "Row",
    "Rows",
    "Snooze",
    "Statement",
    "SyncConnection",
    "TenantExists",
    "TenantNotFound",
    "TenantRequired",
    "Translator",
    "UnknownConnection",
    "Worker",
    "WorkerSettings",
    "add_tenant",
    "cancel_jobs",
    "default_root",
    "load_statements",
    "migrate",
    "perform",
    "requeue_jobs",
    "resolve_tenant",
    "set_tenant",
    "translator",
    "uuid7",
    "wake",
]

_ROOMS: Final = {
    "relevo.api": ("AsyncConnection", "SyncConnection", "perform"),
    "relevo.app": ("JobKind", "Relevo"),
    "relevo.db.drivers.errors": ("NotInTransaction", "UnknownConnection"),
    "relevo.db.dsn": ("WEB_ROLE",),
    "relevo.db.embedded": ("Embedded", "EmbeddedError", "default_root"),
    "relevo.db.migrate": ("ENGINE", "Line", "MigrationError", "migrate"),
    "relevo.db.operation": ("Call", "Operation", "Row", "Rows"),
    "relevo.db.session": ("set_tenant",),
    "relevo.db.statements": ("Statement", "load_statements"),
    "relevo.loops.context": ("Context",),
    "relevo.engine.jobs.again": ("Cancelled", "cancel_jobs", "requeue_jobs"),
    "relevo.engine.jobs.enqueue": ("wake",),
    "relevo.engine.jobs.errors": ("JobNotFound", "LeaseLost"),
    "relevo.engine.tenants": ("TenantExists", "TenantNotFound", "add_tenant", "resolve_tenant"),
    "relevo.errors": ("RelevoError",),
    "relevo.i18n": ("Translator", "translator"),
    "relevo.loops.settings": ("WorkerSettings",),
    "relevo.loops.worker": ("Worker",),
    "relevo.model.backoff": ("DELIVERY", "STANDARD", "Backoff"),
    "relevo.model.errors": ("InvalidOption", "PayloadError", "TenantRequired"),
    "relevo.model.ids": ("DEFAULT_TENANT", "uuid7"),
    "relevo.model.job": ("Enqueued", "JobState", "KeyMode"),
    "relevo.model.limit": ("Limit",),
    "relevo.model.options": ("Options",),
    "relevo.model.outcome": (
        "Cancel",
        "Fail",
        "Outage",
        "Outcome",
        "PermanentError",
        "Retry",
        "Snooze",
    ),
    "relevo.model.retention": ("KEEP", "Retention"),
}
_ROOM_OF: Final = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if room := _ROOM_OF.get(name):
        value: object = getattr(import_module(room), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
