"""What we say about relevo.tenants."""

from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store", "tenants.sql")


def find_tenant(name: str) -> Operation[UUID | None]:
    """Answer the id of the tenant with this id or slug, or None."""
    rows = yield Call(STATEMENTS["find_tenant"], {"name": name})
    return rows[0][0] if rows else None
