"""What we say about relevo.attempts, the history that only grows."""

from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements
from relevo.model.job import Attempt

STATEMENTS: Final = load_statements("relevo.store", "attempts.sql")


def list_attempts(tenant_id: UUID, job_id: int) -> Operation[list[Attempt]]:
    """Answer the starts of one job that did not complete it, oldest first."""
    params = {"tenant_id": tenant_id, "job_id": job_id}
    rows = yield Call(STATEMENTS["list_attempts"], params)
    return [Attempt(*row) for row in rows]
