"""What a transaction says of itself before it works."""

from typing import Final
from uuid import UUID

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.db", "session.sql")


def set_tenant(tenant_id: UUID) -> Operation[None]:
    """Say whose rows this transaction may see and write.

    Row-level security reads it; the end of the transaction, commit or roll-back, forgets it.
    """
    params = {"tenant_id": str(tenant_id)}
    yield Call(STATEMENTS["set_tenant"], params, needs_transaction=True)
