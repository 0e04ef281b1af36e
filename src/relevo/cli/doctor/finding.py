"""What one check found, in words for the reader and codes for scripts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import psycopg

from relevo.cli.database import Database
from relevo.db.migrate import Line
from relevo.db.operation import Row
from relevo.db.statements import load_statements

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

_FACTS = load_statements("relevo.cli.doctor", "facts.sql")


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes:
        status: How it ended.
        why: What was found, in the reader's language.
        fix: What to do about it; None where there is nothing to do.
        figures: What was counted, for monitoring; English keys.
    """

    status: Status
    why: str
    fix: str | None = None
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined.

    Attributes:
        database: Where.
        lines: The lines of migrations of this installation.
        connection: A session of the login's own.
        needs: How many connections one worker opens at most.
        patience: How many seconds a transaction may take before it is told of.
    """

    database: Database
    lines: Sequence[Line]
    connection: Connection
    needs: int
    patience: float

    @property
    def schemas(self) -> list[str]:
        """The schemas that hold our tables: each line has the one of its name."""
        return list(dict.fromkeys(["relevo", *(line.name for line in self.lines)]))


@dataclass(frozen=True, slots=True)
class Check:
    """One thing to examine.

    Attributes:
        code: Its name for scripts.
        title: Its name for people, in English; translated when shown.
        examine: Does it.
        needs_schema: Whether it makes no sense before the first migration.
    """

    code: str
    title: str
    examine: Callable[[Patient], Finding]
    needs_schema: bool = True


def ok(why: str, figures: Mapping[str, object] | None = None) -> Finding:
    """Answer that all is well."""
    return Finding(Status.OK, why, figures=figures or {})


def warn(why: str, fix: str, figures: Mapping[str, object] | None = None) -> Finding:
    """Answer that something deserves a look."""
    return Finding(Status.WARN, why, fix, figures or {})


def fail(why: str, fix: str, figures: Mapping[str, object] | None = None) -> Finding:
    """Answer that delivery is in danger, or somebody sees too much."""
    return Finding(Status.FAIL, why, fix, figures or {})


def read(
    connection: Connection, fact: str, params: Mapping[str, object] | None = None
) -> Sequence[Row]:
    """Answer the rows of one statement of ``facts.sql``."""
    return connection.execute(_FACTS[fact].sql.encode(), params or {}).fetchall()


def first(connection: Connection, fact: str) -> Row:
    """Answer the only row of one statement of ``facts.sql``."""
    return read(connection, fact)[0]
