"""Work on rows, written once and run on any kind of connection.

An operation is a generator: it yields calls (a statement and its parameters),
receives the rows, and returns its answer. It never commits and never opens a
transaction: the caller's transaction decides whether anything happened.
`drive` and `drive_async` carry an operation from its first call to its answer;
they know no database.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
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


def drive(operation: Operation[T], execute: Callable[[Call], Rows]) -> T:
    """Carry an operation to its answer.

    An error of `execute` is thrown into the operation at the call that caused
    it, so that its finally blocks run; unless the operation answers it, the
    caller receives that same error.

    Args:
        operation: A new operation; it can be driven once.
        execute: Runs one call and answers its rows.
    """
    try:
        call = next(operation)
        while True:
            try:
                rows = execute(call)
            except BaseException as error:  # noqa: BLE001 - handed on to the operation, cancellation too
                call = operation.throw(error)
            else:
                call = operation.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        operation.close()


async def drive_async(operation: Operation[T], execute: Callable[[Call], Awaitable[Rows]]) -> T:
    """Carry an operation to its answer with an `execute` that is awaited."""
    try:
        call = next(operation)
        while True:
            try:
                rows = await execute(call)
            except BaseException as error:  # noqa: BLE001 - handed on to the operation, cancellation too
                call = operation.throw(error)
            else:
                call = operation.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    finally:
        operation.close()
