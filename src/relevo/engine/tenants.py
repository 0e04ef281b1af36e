"""Whose rows there are: find a tenant out, add one, list them.

Only the owner of the schema may add one; nothing here removes one.
"""

import re
from typing import Final
from uuid import UUID

from relevo.db.identity import Mode, read_mode
from relevo.db.operation import Operation
from relevo.errors import RelevoError
from relevo.model.errors import InvalidOption
from relevo.model.ids import DEFAULT_TENANT, uuid7
from relevo.store import tenants
from relevo.store.tenants import Tenant

_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class TenantNotFound(RelevoError, LookupError):
    """No tenant has this id or slug."""

    template = "there is no tenant %(tenant)r; check its slug or its id"


class TenantNotNamed(RelevoError):
    """The installation has many tenants and the caller named none."""

    template = "this installation has many tenants; say which one with --tenant"


class TenantExists(RelevoError):
    """The slug is taken."""

    template = "there is a tenant %(slug)r already; choose another slug"


class OneTenantOnly(RelevoError):
    """A second tenant, where the installation has one that is never mentioned."""

    template = (
        "this installation has one tenant, which is never mentioned, so there cannot be %(slug)r; "
        "run `relevo db init --tenants multi` if there are to be many"
    )


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


def add_tenant(slug: str, name: str | None = None) -> Operation[UUID]:
    """Add a tenant, as the owner of the schema; it exists when the transaction commits.

    Args:
        slug: What people type: a-z, 0-9, dash and underscore, at most 63 characters.
        name: What people read; None means the slug.

    Returns:
        The new tenant's id.

    Raises:
        InvalidOption: The slug or the name cannot be one.
        OneTenantOnly: The installation is for one tenant.
        TenantExists: The slug is taken; nothing was changed.
    """
    shown = slug if name is None else name.strip()
    _check(slug, shown)
    mode = yield from read_mode()
    if mode is not Mode.MULTI:
        raise OneTenantOnly(slug=slug)
    tenant_id = uuid7()
    if not (yield from tenants.insert_tenant(tenant_id, slug, shown)):
        raise TenantExists(slug=slug)
    return tenant_id


def list_tenants() -> Operation[list[Tenant]]:
    """Answer every tenant, by slug."""
    return tenants.list_tenants()


def _check(slug: str, name: str) -> None:
    """Refuse what the table would refuse later."""
    if not _SLUG.fullmatch(slug):
        raise InvalidOption(
            option="slug",
            value=slug,
            why="it has a-z, 0-9, dash and underscore, starts with a letter or digit, "
            "and is at most 63 characters long",
            next="choose another one",
        )
    if not name or not name.isprintable():
        raise InvalidOption(
            option="name",
            value=name,
            why="people read it on one line",
            next="write it without line breaks, or leave it out",
        )
