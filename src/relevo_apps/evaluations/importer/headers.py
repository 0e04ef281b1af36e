"""Know the columns of a file by their headers.

Accents, case, and marks between words do not matter. What a header does not say, the
cells are never asked to reveal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relevo_apps.evaluations.importer.columns import Columns
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind, shorten
from relevo_apps.evaluations.model.text import fold

_MARKS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file.

    Attributes:
        places: Where each known column stands.
        titles: The header of each known column as the file writes it.
        width: How many cells a row must have.
        problems: What is wrong with the header.
        warnings: Columns that were left out.
    """

    places: Mapping[str, int]
    titles: Mapping[str, str]
    width: int
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def spell(title: str) -> str:
    """Reduce a header to what its spellings have in common.

    Args:
        title: The header as the file writes it.
    """
    return _MARKS.sub(" ", fold(title)).strip()


def count_known(cells: Sequence[str], columns: Columns) -> int:
    """Count the cells that name a column.

    Args:
        cells: A row that may be a header.
        columns: The names of each column.
    """
    names = {name for spellings in columns.values() for name in spellings}
    return sum(spell(cell) in names for cell in cells)


def read_header(cells: Sequence[str], line: int, columns: Columns) -> Header:
    """Find the known columns in the header of a file.

    Args:
        cells: The cells of the header.
        line: Its line.
        columns: The names of each column.
    """
    known = {name: column for column, spellings in columns.items() for name in spellings}
    found = [known.get(spell(cell)) for cell in cells]
    # 'Nombre' beside 'Apellidos' is the first name; alone it is the whole one.
    alone = "full_name" if "last_name" not in found else "first_name"
    found = [alone if column == "name" else column for column in found]
    places: dict[str, int] = {}
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for place, (cell, column) in enumerate(zip(cells, found, strict=True)):
        if column is None:
            if cell.strip():
                warnings.append(Problem(ProblemKind.HEADER_UNKNOWN, line, shorten(cell)))
        elif column in places:
            fields = {"column": columns[column][0]}
            problems.append(
                Problem(ProblemKind.HEADER_DUPLICATED, line, shorten(cell), fields=fields)
            )
        else:
            places[column] = place
    titles = {column: shorten(cells[place].strip()) for column, place in places.items()}
    return Header(places, titles, len(cells), tuple(problems), tuple(warnings))


def missing(column: str, columns: Columns, line: int) -> Problem:
    """Tell that a column is missing, and how it may be named.

    Args:
        column: The column.
        columns: The names of each column.
        line: The line of the header.
    """
    names = columns[column]
    fields = {"column": names[0], "names": ", ".join(names[:3])}
    return Problem(ProblemKind.HEADER_MISSING, line, fields=fields)
