"""Say what of a queue, a kind or a tenant is running, and which claims are under way.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.scope import Scope

STATEMENTS: Final = load_statements("relevo.store.jobs", "running.sql")


def count_running(scope: Scope, name: str) -> Operation[int]:
    """Answer how many jobs of it workers hold; only a role that sees every tenant sees all."""
    rows = yield Call(STATEMENTS["count_running"], _only(scope, name))
    return int(rows[0][0])


def has_live_jobs(scope: Scope, name: str) -> Operation[bool]:
    """Answer whether it has a job that has not ended."""
    rows = yield Call(STATEMENTS["has_live_jobs"], _only(scope, name))
    return bool(rows[0][0])


def list_claims() -> Operation[frozenset[str]]:
    """Answer the transactions that are claiming now, each by a name that no other ever has."""
    rows = yield Call(STATEMENTS["list_claims"])
    return frozenset(row[0] for row in rows)


def _only(scope: Scope, name: str) -> dict[str, object]:
    return {
        "queue": name if scope is Scope.QUEUE else None,
        "kind": name if scope in {Scope.KIND, Scope.LANE} else None,
        "tenant_id": UUID(name) if scope is Scope.TENANT else None,
    }
