"""Keep the planner to set-wise joins while whole organisations are written.

These statements run right after their tables were filled, often before the first
ANALYZE. The planner then expects one row where there are ten thousand and loops over
all pairs; a hash join costs little when the guess is right and saves minutes when not.
"""

from typing import TypeVar

from relevo import Call, Operation, RelevoError, load_statements

T = TypeVar("T")

SQL = load_statements("relevo_apps.evaluations.store", "planning.sql")


def set_wise(operation: Operation[T]) -> Operation[T]:
    """Run an operation without nested loops, then restore the caller's settings.

    Args:
        operation: A new operation.
    """
    rows = yield Call(SQL["forbid_nested_loops"], needs_transaction=True)
    restore = Call(SQL["restore_planning"], {"enable_nestloop": rows[0][0], "jit": rows[0][1]})
    try:
        answer = yield from operation
    except RelevoError:
        # A refusal leaves the transaction usable, so it must leave the settings as well.
        yield restore
        raise
    yield restore
    return answer
