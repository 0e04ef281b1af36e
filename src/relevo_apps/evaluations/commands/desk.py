"""Where a command of evaluation cycles works: as the role of the web, for one tenant.

Each piece of work is one transaction that says first whose rows it may see.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from relevo import WEB_ROLE, Operation, RelevoError, perform, resolve_tenant, set_tenant
from relevo.cli import Shell, option
from relevo.cli import gettext as _
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import CycleNotFound

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Desk:
    """A connection, whose rows it works on, and who works.

    Attributes:
        connection: Commits by itself outside `do`.
        tenant_id: Whose rows.
        actor: Who is recorded.
        shell: The run, which is told when something may have been written.
    """

    connection: psycopg.Connection[Any]
    tenant_id: UUID
    actor: str
    shell: Shell | None = None

    def do(self, operation: Operation[T], *, keep: bool = True) -> T:
        """Carry an operation out in a transaction of its own.

        Args:
            operation: A new operation.
            keep: Whether the transaction commits; else it is rolled back.
        """
        with self.connection.transaction(force_rollback=not keep):
            perform(self.connection, set_tenant(self.tenant_id))
            answer: T = perform(self.connection, operation)
            if keep and self.shell is not None:
                # From here on an interruption may come after the commit.
                self.shell.wrote_nothing = False
        return answer

    def look(self, operation: Operation[T]) -> T:
        """Carry out an operation that only reads, all of it from one moment."""
        self.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            return self.do(operation, keep=False)
        finally:
            self.connection.isolation_level = None

    def find_cycle(self, named: str) -> UUID:
        """Answer the cycle with this name or id.

        Raises:
            CycleNotFound: There is none.
        """
        try:
            return self.do(service.find_cycle(self.tenant_id, named), keep=False).id
        except CycleNotFound:
            try:
                return UUID(named)
            except ValueError:
                raise CycleNotFound(cycle=named) from None


@contextmanager
def working(
    shell: Shell, tenant: str | None, actor: str | None = None
) -> Generator[Desk, None, None]:
    """Open the database of this run at the desk of one tenant.

    Args:
        shell: The run.
        tenant: What --tenant said: a slug or an id.
        actor: What --actor said; None is who is at the keyboard.
    """
    with shell.database() as database, database.connect(WEB_ROLE) as connection:
        tenant_id = perform(connection, resolve_tenant(tenant))
        shell.wrote_nothing = True
        try:
            yield Desk(connection, tenant_id, actor or shell.actor, shell)
        except RelevoError as error:
            raise in_words(error) from error


def in_words(error: RelevoError) -> RelevoError:
    """Answer the same error with the state that it names in the language of the run."""
    if not isinstance(state := error.fields.get("state"), str):
        return error
    return type(error)(**{**error.fields, "state": _(state)})


def actor_option(function: F) -> F:
    """Add --actor."""
    return option(
        "--actor", metavar="WHO", help="Who is recorded; else RELEVO_ACTOR, or user@host."
    )(function)
