"""What we say about relevo.tenants."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store", "tenants.sql")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One whose rows are nobody else's.

    Attributes:
        id: What stands on every row of theirs.
        slug: What people type.
        name: What people read.
        created_at: Since when there is one.
    """

    id: UUID
    slug: str
    name: str
    created_at: datetime


def find_tenant(name: str) -> Operation[UUID | None]:
    """Answer the id of the tenant with this id or slug, or None."""
    rows = yield Call(STATEMENTS["find_tenant"], {"name": name})
    return rows[0][0] if rows else None


def insert_tenant(tenant_id: UUID, slug: str, name: str) -> Operation[bool]:
    """Add a tenant; answer False where the slug is taken."""
    params = {"id": tenant_id, "slug": slug, "name": name}
    rows = yield Call(STATEMENTS["insert_tenant"], params)
    return bool(rows)


def list_tenants() -> Operation[list[Tenant]]:
    """Answer every tenant, by slug."""
    rows = yield Call(STATEMENTS["list_tenants"])
    return [Tenant(*row) for row in rows]
