"""The roles that relevo works as, and the settings that their sessions start with.

`relevo_worker` sees every tenant and delivers; `relevo_web` sees one tenant at a
time. Neither can log in: whoever migrates may become them, or an administrator
grants them to logins of their own. Roles belong to the whole server, so another
database may be creating the same ones at this very moment.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg
from psycopg import sql

from relevo.db.dsn import PLAN_SETTINGS, WEB_ROLE, WORKER_ROLE
from relevo.db.statements import load_statements
from relevo.errors import RelevoError

ROLES = (WORKER_ROLE, WEB_ROLE)

_STATEMENTS = load_statements("relevo.db", "roles.sql")
_TRIES = 40
_SET_OPTION_SINCE = 160000


class RolesMissing(RelevoError):
    """The roles do not exist and the migrating role may not create them."""

    template: ClassVar[str] = (
        "the roles %(roles)s do not exist and %(user)s may not create them; "
        "run `relevo db sql` and hand the script to the database's administrator"
    )


@dataclass(frozen=True, slots=True)
class RoleState:
    """How one role stands towards the session that asks.

    Attributes:
        name: The role's name.
        exists: It is there.
        may_become: The session can SET ROLE to it.
        may_grant: The session can make itself a member.
        may_create: The session can create roles.
        user: Who asks.
    """

    name: str
    exists: bool
    may_become: bool
    may_grant: bool
    may_create: bool
    user: str


def read_roles(connection: psycopg.Connection[Any]) -> list[RoleState]:
    """Say how the two roles stand; writes nothing."""
    separate = connection.info.server_version >= _SET_OPTION_SINCE
    params = {"names": list(ROLES), "settable": "SET" if separate else "MEMBER"}
    rows = connection.execute(_STATEMENTS["read_roles"].sql.encode(), params).fetchall()
    return [
        # Before 16, whoever may create roles may also grant any role.
        RoleState(name, exists, become, admin or (create and not separate), create, user)
        for name, exists, become, admin, create, user in rows
    ]


def require_roles(connection: psycopg.Connection[Any]) -> None:
    """Refuse before anything is written when the roles can be neither found nor created.

    Raises:
        RolesMissing: An administrator has to create them.
    """
    states = read_roles(connection)
    missing = [state.name for state in states if not state.exists]
    if missing and not states[0].may_create:
        raise RolesMissing(roles=", ".join(missing), user=states[0].user)


def ensure_roles(connection: psycopg.Connection[Any]) -> None:
    """Create the roles that are missing and make the migrating role a member.

    The connection commits by itself. A member may become the role and does not
    inherit it where the server can tell the two apart (16 and newer), so that
    the owner does not silently see every tenant. Where the session may not grant
    the roles it leaves them as they are: workers may well have logins of their own.

    Raises:
        RolesMissing: An administrator has to create them.
    """
    require_roles(connection)
    _through_collisions(lambda: _ensure_membership(connection))
    _through_collisions(lambda: _ensure_settings(connection))


def _ensure_membership(connection: psycopg.Connection[Any]) -> None:
    for state in read_roles(connection):
        if not state.exists:
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(state.name)))
    separate = connection.info.server_version >= _SET_OPTION_SINCE
    grant = "GRANT {} TO CURRENT_USER" + (" WITH SET TRUE, INHERIT FALSE" if separate else "")
    for state in read_roles(connection):
        if state.may_grant and not state.may_become:
            connection.execute(sql.SQL(grant).format(sql.Identifier(state.name)))


def _ensure_settings(connection: psycopg.Connection[Any]) -> None:
    rows = connection.execute(
        _STATEMENTS["read_role_settings"].sql.encode(), {"name": WORKER_ROLE}
    ).fetchall()
    present = {row[0] for row in rows}
    database = sql.Identifier(connection.info.dbname)
    for name, value in PLAN_SETTINGS.items():
        if f"{name}={value}" in present:
            continue
        change = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
        try:
            connection.execute(
                change.format(
                    sql.Identifier(WORKER_ROLE), database, sql.Identifier(name), sql.Literal(value)
                )
            )
        except psycopg.errors.InsufficientPrivilege:
            return  # the worker's sessions bring the same settings along


def _through_collisions(work: Callable[[], None]) -> None:
    """Repeat `work` while other databases change the same roles at the same time."""
    for tries_left in reversed(range(_TRIES)):
        try:
            work()
        except (
            psycopg.errors.DuplicateObject,
            psycopg.errors.UniqueViolation,
            psycopg.errors.LockNotAvailable,
        ):
            if not tries_left:
                raise
        except psycopg.errors.InternalError_ as error:
            if not tries_left or "concurrently" not in str(error):
                raise
        else:
            return
        time.sleep(random.uniform(0.01, 0.1))  # noqa: S311 - spreads the tries, guards nothing
