"""Read the file that names peers: one participant and one peer in each row."""

import csv
from dataclasses import dataclass
from typing import BinaryIO

from relevo_apps.evaluations.importer.columns import PEER_COLUMNS
from relevo_apps.evaluations.importer.headers import missing, read_header
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind
from relevo_apps.evaluations.importer.reader import find_delimiter, read_rows, read_text
from relevo_apps.evaluations.importer.rows import Row


@dataclass(frozen=True, slots=True)
class PeersFile:
    """What a peers file says.

    Attributes:
        pairs: The participant and the peer of each good row, by external id or address.
        problems: What is wrong; a file with problems is not meant to be used.
        warnings: What deserves a look.
    """

    pairs: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def read_peers(source: bytes | BinaryIO) -> PeersFile:
    """Read a peers file.

    Args:
        source: The file, or what it holds.
    """
    text = read_text(source)
    if text.problems:
        return PeersFile((), text.problems)
    pairs: list[tuple[str, str]] = []
    problems: list[Problem] = []
    warnings = list(text.warnings)
    delimiter, body = find_delimiter(text.text, PEER_COLUMNS)
    rows = read_rows(body, delimiter)
    line = 0
    try:
        line, cells = next(rows, (0, ()))
        header = read_header(cells, line, PEER_COLUMNS)
        problems.extend(header.problems)
        warnings.extend(header.warnings)
        absent = [column for column in PEER_COLUMNS if column not in header.places]
        problems.extend(missing(column, PEER_COLUMNS, line) for column in absent if line)
        if not problems:
            for line, cells in rows:
                row = Row(line, cells, header)
                pair = _read_pair(row)
                problems.extend(row.problems)
                if pair:
                    pairs.append(pair)
    except csv.Error:
        problems.append(Problem(ProblemKind.BROKEN_QUOTES, line + 1))
    if not pairs and not problems:
        problems.append(Problem(ProblemKind.EMPTY_FILE))
    return PeersFile(tuple(pairs), tuple(problems), tuple(warnings))


def _read_pair(row: Row) -> tuple[str, str] | None:
    if not row.has_all_cells():
        return None
    participant, peer = row.get("participant"), row.get("peer")
    for column, value in (("participant", participant), ("peer", peer)):
        if not value and not row.problems:
            row.refuse(ProblemKind.REFERENCE_MISSING, column)
    if participant and participant == peer:
        row.refuse(ProblemKind.PEER_SELF, "peer", peer)
    return None if row.problems else (participant, peer)
