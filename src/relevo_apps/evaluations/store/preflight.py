"""Rehearse inside the caller's transaction, and take it back with its locks."""

from relevo import Call, Operation, load_statements

SQL = load_statements("relevo_apps.evaluations.store", "preflight.sql")


def begin_preflight() -> Operation[None]:
    """Mark the place to which everything after this is taken back."""
    yield Call(SQL["begin_preflight"], needs_transaction=True)


def end_preflight() -> Operation[None]:
    """Take back what was done since, and forget the mark, so that one may rehearse again."""
    yield Call(SQL["undo_preflight"])
    yield Call(SQL["end_preflight"])
