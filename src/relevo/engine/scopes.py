"""What an operator holds back, by name: what rows call it, who knows it, and whom to tell."""

import re
from typing import Final

from relevo.db.operation import Operation
from relevo.engine.tenants import resolve_tenant
from relevo.model.checks import check_name
from relevo.model.scope import Scope
from relevo.store import workers
from relevo.store.jobs import enqueue as enqueue_rows
from relevo.store.jobs import running as running_rows

_KIND: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,126}")


def read_name(scope: Scope, name: str) -> Operation[str]:
    """Answer the name that rows know: a queue's or a kind's own, a tenant's id.

    Args:
        scope: What the name is a name of; the lanes of a kind are named by the kind.
        name: As people write it; a tenant by slug or id.

    Raises:
        TenantNotFound: There is no such tenant.
        InvalidOption: No queue or kind can have this name.
    """
    if scope is Scope.TENANT:
        tenant_id = yield from resolve_tenant(name)
        return str(tenant_id)
    if scope is Scope.QUEUE:
        check_name("queue", name)
    else:
        check_name("kind", name, _KIND)
    return name


def is_known(scope: Scope, name: str) -> Operation[bool]:
    """Answer whether a live worker serves it, or a job of it has not ended.

    Who names what nobody knows has mistyped it, or is early. A tenant that exists is known.

    Args:
        scope: What it is.
        name: Which one, as rows know it.
    """
    if scope is Scope.TENANT:
        return True
    live = yield from _list_live_workers()
    served = {each for one in live for each in (one.queues if scope is Scope.QUEUE else one.kinds)}
    if name in served:
        return True
    has_jobs = yield from running_rows.has_live_jobs(scope, name)
    return has_jobs


def tell_workers(scope: Scope, name: str) -> Operation[None]:
    """Wake the idle workers that may have work as soon as something goes on.

    They are told when the transaction commits. Said after the change was committed it
    misses none: whoever falls idle later than the look at who is idle has seen the change.

    Args:
        scope: What goes on.
        name: Which one, as rows know it.
    """
    queues = {name}
    if scope is not Scope.QUEUE:
        live = yield from _list_live_workers()
        concerned = (row for row in live if scope is Scope.TENANT or name in row.kinds)
        queues = {queue for row in concerned for queue in row.queues}
    for queue in sorted(queues):
        yield from enqueue_rows.wake_workers(queue)


def _list_live_workers() -> Operation[list[workers.WorkerRow]]:
    rows = yield from workers.list_workers()
    return [row for row in rows if row.is_live and not row.stopping]
