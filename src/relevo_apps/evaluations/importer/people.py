"""Read the people file: each row alone, before anybody is compared with anybody."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from relevo_apps.evaluations.importer.columns import PEOPLE_COLUMNS
from relevo_apps.evaluations.importer.dates import DateOrder
from relevo_apps.evaluations.importer.headers import Header, missing, read_header
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind
from relevo_apps.evaluations.importer.reader import (
    LARGEST_FILE,
    find_delimiter,
    read_rows,
    read_text,
)
from relevo_apps.evaluations.importer.rows import Row
from relevo_apps.evaluations.model.people import Language, PersonRecord

_NAMES = {"full_name", "first_name", "last_name"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a people file is read.

    Attributes:
        date_order: The order of day and month, where the file does not write ISO dates.
        default_language: The language of new people of whom the file says none.
        largest_file: How many bytes are accepted.
        most_rows: How many rows are accepted.
    """

    date_order: DateOrder | None = None
    default_language: Language = Language.ENGLISH
    largest_file: int = LARGEST_FILE
    most_rows: int = 200_000


DEFAULT_OPTIONS = ReadOptions()


@dataclass(slots=True)
class PeopleFile:
    """What a people file says.

    Attributes:
        records: What the rows say, as far as they can be read.
        refused: The lines of rows that have a problem.
        columns: The columns that the file has.
        titles: The header of each column as the file writes it.
        problems: What is wrong.
        warnings: What deserves a look.
        rows: How many rows the file has.
        encoding: What the file was decoded from.
        delimiter: What stands between two cells.
        is_readable: False when the file as a whole was refused.
    """

    records: list[PersonRecord] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)
    columns: frozenset[str] = frozenset()
    titles: Mapping[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    rows: int = 0
    encoding: str = "utf-8"
    delimiter: str = ","
    is_readable: bool = True

    def refuse(self, *problems: Problem) -> None:
        """Refuse the file as a whole."""
        self.problems.extend(problems)
        self.is_readable = False


def read_people(source: bytes | BinaryIO, options: ReadOptions = DEFAULT_OPTIONS) -> PeopleFile:
    """Read a people file as far as it can be read.

    Args:
        source: The file, or what it holds.
        options: How to read it.
    """
    text = read_text(source, options.largest_file)
    file = PeopleFile(warnings=list(text.warnings), encoding=text.encoding)
    if text.problems:
        file.refuse(*text.problems)
    else:
        _read_table(text.text, options, file)
    return file


def _read_table(text: str, options: ReadOptions, file: PeopleFile) -> None:
    file.delimiter, body = find_delimiter(text, PEOPLE_COLUMNS)
    rows = read_rows(body, file.delimiter)
    line = 0
    try:
        line, cells = next(rows, (0, ()))
        if line:
            header = _read_header(cells, line, file)
            if file.is_readable:
                for line, cells in rows:
                    _read_row(Row(line, cells, header), options, file)
    except csv.Error:
        file.refuse(Problem(ProblemKind.BROKEN_QUOTES, line + 1))
    if file.rows > options.most_rows:
        file.refuse(Problem(ProblemKind.TOO_LARGE, fields={"limit": f"{options.most_rows} rows"}))
    elif file.is_readable and not file.rows:
        file.refuse(Problem(ProblemKind.EMPTY_FILE))


def _read_header(cells: Sequence[str], line: int, file: PeopleFile) -> Header:
    header = read_header(cells, line, PEOPLE_COLUMNS)
    file.columns = frozenset(header.places)
    file.titles = header.titles
    file.warnings.extend(header.warnings)
    if header.problems:
        file.refuse(*header.problems)
    if "external_id" not in file.columns:
        file.refuse(missing("external_id", PEOPLE_COLUMNS, line))
    if not file.columns & _NAMES:
        file.refuse(missing("full_name", PEOPLE_COLUMNS, line))
    return header


def _read_row(row: Row, options: ReadOptions, file: PeopleFile) -> None:
    file.rows += 1
    if file.rows > options.most_rows:
        return
    record = row.read(options.date_order, options.default_language)
    file.problems.extend(row.problems)
    file.warnings.extend(row.warnings)
    if row.problems:
        file.refused.add(row.line)
    if record is not None:
        file.records.append(record)
