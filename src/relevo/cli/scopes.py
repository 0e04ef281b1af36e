"""What an operator holds back: how it is named on the command line, and how it is said."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click
import psycopg

from relevo.api import perform
from relevo.cli.database import Database
from relevo.cli.language import gettext as _
from relevo.cli.shell import Shell
from relevo.db.dsn import WORKER_ROLE
from relevo.engine.scopes import is_known
from relevo.engine.tenants import list_tenants
from relevo.model.scope import Scope

F = TypeVar("F", bound=Callable[..., Any])

Connection = psycopg.Connection[tuple[Any, ...]]

_SETTINGS: Final = {
    "default_transaction_isolation": "read committed",
    # Looks go over the live jobs' index, not over all that a long table keeps, and leave the
    # other processors to those who work.
    "enable_seqscan": "off",
    "max_parallel_workers_per_gather": "0",
}


def scope_arguments(scopes: Sequence[Scope]) -> Callable[[F], F]:
    """Add the two words that name something: what it is, and which one.

    Args:
        scopes: What may be named.
    """

    def add(function: F) -> F:
        named = click.argument("name", metavar="NAME")(function)
        return click.argument("scope", type=click.Choice([each.value for each in scopes]))(named)

    return add


@contextmanager
def as_worker(database: Database) -> Generator[Connection, None, None]:
    """Open a connection that sees every tenant and commits each statement by itself."""
    with database.connect(WORKER_ROLE, settings=_SETTINGS) as connection:
        yield connection


def say_scope(scope: Scope) -> str:
    """Say what something is."""
    words = {
        Scope.QUEUE: _("queue"),
        Scope.KIND: _("kind"),
        Scope.TENANT: _("tenant"),
        Scope.LANE: _("lane"),
    }
    return words[scope]


def say_thing(scope: Scope, name: str) -> str:
    """Say what something is and which one."""
    return f"{say_scope(scope)} {name}"


def note_unknown(shell: Shell, connection: Connection, scope: Scope, name: str) -> None:
    """Warn of a name that no worker and no job knows: mistyped, or early.

    Args:
        shell: Where notes go.
        connection: One that sees every tenant.
        scope: What it is.
        name: Which one; a tenant as it was typed.
    """
    if not perform(connection, is_known(scope, name)):
        shell.out.note(
            _("%(thing)s: no live worker serves it and none of its jobs waits; check the name")
            % {"thing": say_thing(scope, name)}
        )


def read_slugs(connection: Connection, scopes: Sequence[Scope]) -> Mapping[str, str]:
    """Answer the slugs of the tenants by their ids; empty where no scope is a tenant."""
    if Scope.TENANT not in scopes:
        return {}
    return {str(each.id): each.slug for each in perform(connection, list_tenants())}


def shown_name(scope: Scope, name: str, slugs: Mapping[str, str]) -> str:
    """Answer the name that people type: a tenant's slug instead of its id.

    Args:
        scope: What it is.
        name: Which one, as rows know it.
        slugs: The slugs of tenants by their ids.
    """
    return slugs.get(name, name) if scope is Scope.TENANT else name


def scope_fields(scope: Scope, name: str, slugs: Mapping[str, str]) -> dict[str, object]:
    """Answer what something is and which one, for machines; the arguments are `shown_name`'s."""
    return {
        "scope": scope,
        "name": shown_name(scope, name, slugs),
        "tenant_id": name if scope is Scope.TENANT and name in slugs else None,
    }
