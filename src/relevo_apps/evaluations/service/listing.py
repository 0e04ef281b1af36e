"""List cycles, and say why their mail may be resting."""

from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.model.cycles import DEFAULT_DISPATCH
from relevo_apps.evaluations.model.listing import CycleLine, Pause
from relevo_apps.evaluations.store import listing as listing_rows


def list_cycles(tenant_id: UUID, *, limit: int = 1000) -> Operation[tuple[CycleLine, ...]]:
    """Answer the cycles of a tenant, the newest first.

    Args:
        tenant_id: Whose cycles.
        limit: How many at most.
    """
    return (yield from listing_rows.list_cycles(tenant_id, limit))


def mail_pause(queue: str = DEFAULT_DISPATCH.queue) -> Operation[Pause | None]:
    """Answer why the queue of the notifications rests; None when it does not."""
    return (yield from listing_rows.read_pause(queue))
