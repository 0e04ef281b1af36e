"""Turn the bytes of a CSV file into rows with their line numbers.

Encoding and delimiter are found, never asked for: the delimiter is the one under which
the header names the most known columns, so a comma inside a name decides nothing.
"""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from relevo_apps.evaluations.importer.columns import Columns
from relevo_apps.evaluations.importer.headers import count_known
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind

LARGEST_FILE = 64 * 1024 * 1024
DELIMITERS = (",", ";", "\t", "|")

Encoding = Literal["utf-8", "utf-16", "cp1252"]


@dataclass(frozen=True, slots=True)
class Text:
    """The decoded file.

    Attributes:
        text: Everything behind the byte order mark.
        encoding: What it was decoded from.
        problems: Why it could not be read; then there is no text.
        warnings: What deserves a look.
    """

    text: str
    encoding: Encoding = "utf-8"
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_text(source: bytes | BinaryIO, largest: int = LARGEST_FILE) -> Text:
    """Decode a file: UTF-8, UTF-16 with its mark, else Windows-1252 with a warning.

    Args:
        source: The file, or what it holds.
        largest: How many bytes are read at most.
    """
    content = source if isinstance(source, bytes) else source.read(largest + 1)
    if len(content) > largest:
        fields = {"limit": f"{largest // (1024 * 1024)} MiB"}
        return Text("", problems=(Problem(ProblemKind.TOO_LARGE, fields=fields),))
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        if marked:
            return Text(content.decode("utf-16"), "utf-16")
        return Text(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        pass
    try:
        if not marked:
            text = content.decode("cp1252")
            return Text(text, "cp1252", warnings=(Problem(ProblemKind.NOT_UTF8),))
    except UnicodeDecodeError:
        pass
    return Text("", problems=(Problem(ProblemKind.UNREADABLE),))


def find_delimiter(text: str, columns: Columns) -> tuple[str, str]:
    """Answer the delimiter, and the text behind a spreadsheet's own 'sep=' line.

    Args:
        text: The decoded file.
        columns: The names of each column.
    """
    first, _, rest = text.partition("\n")
    said = first.strip().strip('"')
    if said.lower().startswith("sep=") and len(said) == len("sep=;"):
        # The line stays as an empty one, so that line numbers are those of the file.
        return said[-1], "\n" + rest
    best = max(DELIMITERS, key=lambda mark: _known_under(text, mark, columns))
    return best, text


def _known_under(text: str, delimiter: str, columns: Columns) -> int:
    try:
        for _, cells in read_rows(text, delimiter):
            return count_known(cells, columns)
    except csv.Error:
        pass
    return 0


def read_rows(text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield each row that is not empty, with the line on which it starts.

    Args:
        text: The decoded file.
        delimiter: What stands between two cells.

    Raises:
        csv.Error: The quotes do not match.
    """
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    for cells in rows:
        if any(cell.strip() for cell in cells):
            yield line, cells
        line = rows.line_num + 1
