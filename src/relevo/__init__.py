"""Work that must happen later, once, and in full, kept in the PostgreSQL you already have.

These are the public names; everything else may change without notice.
"""

from relevo.api import AsyncConnection, SyncConnection, perform
from relevo.app import JobKind, Options, Relevo
from relevo.db.operation import Call, Operation, Row, Rows
from relevo.db.session import set_tenant
from relevo.db.statements import Statement, load_statements
from relevo.engine.jobs.context import Context
from relevo.engine.jobs.enqueue import wake
from relevo.errors import RelevoError
from relevo.loops.settings import WorkerSettings
from relevo.loops.worker import Worker
from relevo.model.backoff import DELIVERY, STANDARD, Backoff
from relevo.model.ids import DEFAULT_TENANT, uuid7
from relevo.model.job import Enqueued, JobState, KeyMode
from relevo.model.outcome import Cancel, Fail, Outage, Outcome, PermanentError, Retry, Snooze
from relevo.version import VERSION

__version__ = VERSION

__all__ = [
    "DEFAULT_TENANT",
    "DELIVERY",
    "STANDARD",
    "AsyncConnection",
    "Backoff",
    "Call",
    "Cancel",
    "Context",
    "Enqueued",
    "Fail",
    "JobKind",
    "JobState",
    "KeyMode",
    "Operation",
    "Options",
    "Outage",
    "Outcome",
    "PermanentError",
    "Relevo",
    "RelevoError",
    "Retry",
    "Row",
    "Rows",
    "Snooze",
    "Statement",
    "SyncConnection",
    "Worker",
    "WorkerSettings",
    "load_statements",
    "perform",
    "set_tenant",
    "uuid7",
    "wake",
]
