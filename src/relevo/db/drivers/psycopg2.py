"""Make psycopg2's values the ones that operations expect.

psycopg2 is met beneath SQLAlchemy and Django, which both teach it UUIDs. What
is left is bytes, which it answers as memory views.
"""

from collections.abc import Iterable

from relevo.db.operation import Row, Rows


def plain_rows(rows: Iterable[Iterable[object]]) -> Rows:
    """Copy the rows as tuples of plain values.

    Args:
        rows: The rows of a psycopg2 cursor, or a library's wrapping of them.
    """
    return [_plain_row(row) for row in rows]


def _plain_row(row: Iterable[object]) -> Row:
    return tuple(_plain(value) for value in row)


def _plain(value: object) -> object:
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
