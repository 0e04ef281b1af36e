"""Count the statements of an operation on their way to the runner."""

from dataclasses import dataclass
from typing import TypeVar

from relevo import Operation

T = TypeVar("T")


@dataclass(slots=True)
class Count:
    """How many statements were sent so far."""

    statements: int = 0


def counted(operation: Operation[T], count: Count) -> Operation[T]:
    """Answer the same operation; each call that it makes is one statement, and is counted.

    Args:
        operation: A new operation.
        count: Is raised by one before each statement is sent.
    """
    call = next(operation, None)
    if call is None:
        raise TypeError(operation)
    try:
        while True:
            count.statements += 1
            try:
                rows = yield call
            except BaseException as error:  # noqa: BLE001 -- handed on to the operation
                call = operation.throw(error)
            else:
                call = operation.send(rows)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
