"""An effect: what a handler writes in the transaction that also completes its job."""

from typing import Any

from relevo import Context

INSERT = (
    "INSERT INTO evidence.effects (tenant_id, job_id, attempt, session, key)"
    " VALUES (%s, %s, %s, %s, %s)"
)


def record_effect(connection: Any, ctx: Context, key: str) -> Any:
    """Write one effect of a job; to be awaited where the connection is asynchronous.

    On commit it says under which token (attempt and session) it was written; it belongs
    into `ctx.transaction()`, for only there may it happen no more than once.

    Args:
        connection: What `ctx.transaction()` gave.
        ctx: The handler's context.
        key: What the effect is about; each key once for each job.
    """
    session = ctx._hold.worker
    return connection.execute(INSERT, [ctx.tenant_id, ctx.job_id, ctx.attempt, session, key])
