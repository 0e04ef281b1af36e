"""Find out whose rows are meant."""

from uuid import UUID

from relevo.db.identity import Mode, read_mode
from relevo.db.operation import Operation
from relevo.errors import RelevoError
from relevo.model.ids import DEFAULT_TENANT
from relevo.store import tenants


class TenantNotFound(RelevoError, LookupError):
    """No tenant has this id or slug."""

    template = "there is no tenant %(tenant)r; check its slug or its id"


class TenantNotNamed(RelevoError):
    """The installation has many tenants and the caller named none."""

    template = "this installation has many tenants; say which one with --tenant"


def resolve_tenant(name: str | None) -> Operation[UUID]:
    """Answer whose rows are meant.

    Args:
        name: A slug or an id; None means the only tenant of a single installation.

    Raises:
        TenantNotFound: There is none of that name.
        TenantNotNamed: There are many and none was named.
    """
    if name is None:
        mode = yield from read_mode()
        if mode is Mode.MULTI:
            raise TenantNotNamed
        return DEFAULT_TENANT
    found = yield from tenants.find_tenant(name)
    if found is None:
        raise TenantNotFound(tenant=name)
    return found
