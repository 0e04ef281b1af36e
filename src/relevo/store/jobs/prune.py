"""Remove finished jobs whose time is over.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store.jobs", "prune.sql")


def prune_jobs(limit: int) -> Operation[int]:
    """Delete at most `limit` finished jobs whose retention is over; answer how many."""
    rows = yield Call(STATEMENTS["prune_jobs"], {"limit": limit})
    return int(rows[0][0])
