"""Work on rows, written once and run on any kind of connection.

An operation is a generator: it yields calls (a statement and its parameters),
receives the rows, and returns its answer. It never commits and never opens a
transaction: the caller's transaction decides whether anything happened.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from relevo.db.statements import Statement

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Sequence[Row]


@dataclass(frozen=True, slots=True)
class Call:
    """One trip to the database.

    Attributes:
        statement: What is said.
        params: Its parameters by name. Values are None, bool, int, float, str,
            bytes, UUID, date, datetime, or a list of one of them. JSON travels
            as text in both directions, so that every driver means the same.
        needs_transaction: The operation goes on after this call, or its rows
            must stay locked: a connection that commits by itself is refused.
    """

    statement: Statement
    params: Mapping[str, object] = field(default_factory=dict)
    needs_transaction: bool = False


Operation: TypeAlias = Generator[Call, Rows, T]
