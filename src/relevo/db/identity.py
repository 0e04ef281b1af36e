"""Who this database is, so that a copy of it delivers nothing by mistake.

A restored or cloned database holds the jobs of its original. What it is was
pinned when it was migrated; a worker that finds something else waits until an
operator adopts the copy. A physical copy keeps the server's identifier and the
name, so the marker of the environment decides there.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from relevo.db.operation import Call, Operation
from relevo.db.statements import Statement, load_statements

_STATEMENTS = load_statements("relevo.db", "identity.sql")


class Mode(StrEnum):
    """Whether the installation has one tenant, never mentioned, or many."""

    SINGLE = "single"
    MULTI = "multi"


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one database from its copies.

    Attributes:
        system_identifier: The server's own number, kept by physical copies.
        database: The name of the database.
        environment: The operator's marker, such as ``production``.
    """

    system_identifier: str
    database: str
    environment: str


@dataclass(frozen=True, slots=True)
class IdentityCheck:
    """What was pinned beside what was found.

    Attributes:
        pinned: The identity that the installation has, None if nobody pinned one.
        found: The identity of the database and environment at hand.
    """

    pinned: Identity | None
    found: Identity

    @property
    def matches(self) -> bool:
        """True when this is the database that was migrated or adopted."""
        return self.pinned == self.found

    @property
    def differences(self) -> list[str]:
        """The names of the attributes that differ; all of them when nothing is pinned."""
        names = ("system_identifier", "database", "environment")
        return [
            name
            for name in names
            if self.pinned is None or getattr(self.pinned, name) != getattr(self.found, name)
        ]


def statements() -> Mapping[str, Statement]:
    """The statements of this module by name, for who runs them elsewhere."""
    return _STATEMENTS


def current_environment(environment: str | None = None) -> str:
    """The marker of this environment: what is given, `RELEVO_ENVIRONMENT`, or the host's name."""
    return environment or os.environ.get("RELEVO_ENVIRONMENT") or socket.gethostname()


def check_identity(environment: str | None = None) -> Operation[IdentityCheck]:
    """Compare the database at hand with the one that was pinned; writes nothing.

    Args:
        environment: The marker to compare; by default `current_environment()`.
    """
    rows = yield Call(_STATEMENTS["read_identity"])
    system, database, marker, found_system, found_database = rows[0]
    pinned = None if system is None else Identity(system, database, marker)
    found = Identity(found_system, found_database, current_environment(environment))
    return IdentityCheck(pinned, found)


def pin_identity(environment: str | None = None) -> Operation[None]:
    """Pin the database at hand if nothing is pinned yet, as a migration does."""
    params = {"environment": current_environment(environment)}
    yield Call(_STATEMENTS["pin_identity"], params)


def adopt(environment: str | None = None) -> Operation[Identity]:
    """Pin the database at hand instead of the one before; only the owner may.

    Workers deliver again from their next look, and never if it is rolled back.
    """
    params = {"environment": current_environment(environment)}
    rows = yield Call(_STATEMENTS["adopt_identity"], params)
    return Identity(*rows[0])


def read_mode() -> Operation[Mode]:
    """Say whether this installation has one tenant or many."""
    rows = yield Call(_STATEMENTS["read_mode"])
    return Mode(rows[0][0])


def set_mode(mode: Mode) -> Operation[Mode]:
    """Decide whether this installation has one tenant or many; only the owner may."""
    rows = yield Call(_STATEMENTS["set_mode"], {"mode": mode.value})
    return Mode(rows[0][0])
