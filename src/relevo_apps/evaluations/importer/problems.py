"""What can be wrong with a file, row by row: where, what, and what to do.

The texts are templates over a problem's fields, so that the command line can say them
in Spanish and Portuguese.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

_LONGEST_VALUE = 80


class ProblemKind(Enum):
    """Each kind of problem: its code, what is wrong, and what to do."""

    EMPTY_FILE = (
        "empty_file",
        "the file has no rows",
        "export it again with a header and at least one row",
    )
    TOO_LARGE = (
        "too_large",
        "the file is larger than %(limit)s",
        "split it and import the parts one after the other",
    )
    UNREADABLE = (
        "unreadable",
        "the file is no text in UTF-8, UTF-16 or Windows-1252",
        "save it as CSV UTF-8",
    )
    NOT_UTF8 = (
        "not_utf8",
        "the file is not UTF-8 and was read as Windows-1252",
        "check the accents, or save it as CSV UTF-8",
    )
    BROKEN_QUOTES = (
        "broken_quotes",
        "the quotes do not match from this line on",
        "close the quote, or double the quotes inside the cell",
    )
    HEADER_MISSING = (
        "header_missing",
        "the column %(column)s is missing",
        "name one column %(names)s",
    )
    HEADER_DUPLICATED = (
        "header_duplicated",
        "two columns mean %(column)s",
        "keep one of them",
    )
    HEADER_UNKNOWN = (
        "header_unknown",
        "the column is not known and was left out",
        "nothing, unless it was meant to be read",
    )
    WRONG_WIDTH = (
        "wrong_width",
        "the row has %(cells)s cells and the header has %(headers)s",
        "put cells with commas between quotes, or complete the row",
    )
    BAD_CHARACTER = (
        "bad_character",
        "the cell holds a control character",
        "type the cell again",
    )
    TOO_LONG = (
        "too_long",
        "the cell is longer than %(limit)s characters",
        "shorten it",
    )
    ID_MISSING = ("id_missing", "the person has no id", "write the id of the person")
    ID_DUPLICATED = (
        "id_duplicated",
        "line %(other)s has the same id",
        "give each person one row and one id",
    )
    NAME_MISSING = ("name_missing", "the person has no name", "write the name of the person")
    EMAIL_MISSING = (
        "email_missing",
        "the person has no e-mail address and cannot be asked to evaluate",
        "write the address, unless there is none",
    )
    EMAIL_BAD = (
        "email_bad",
        "the e-mail address cannot be written to",
        "write it as name@example.com, with ASCII letters",
    )
    EMAIL_DUPLICATED = (
        "email_duplicated",
        "line %(other)s has the same e-mail address",
        "give each person an address of their own",
    )
    EMAIL_TAKEN = (
        "email_taken",
        "the person with id %(other)s already has this e-mail address",
        "correct the address, or import both people in one file",
    )
    LANGUAGE_UNKNOWN = (
        "language_unknown",
        "the language is not known",
        "write es, pt or en, or leave it empty",
    )
    DATE_BAD = (
        "date_bad",
        "the date cannot be read",
        "write it as year-month-day, such as 2024-03-31",
    )
    DATE_AMBIGUOUS = (
        "date_ambiguous",
        "day and month can be read in two ways",
        "write it as year-month-day, or say the order of the dates with --dates",
    )
    STATUS_UNKNOWN = (
        "status_unknown",
        "the status is not known",
        "write active or inactive, or leave it empty",
    )
    MANAGER_UNKNOWN = (
        "manager_unknown",
        "nobody has this id or e-mail address",
        "add a row for the manager, or correct the reference",
    )
    MANAGER_AMBIGUOUS = (
        "manager_ambiguous",
        "more than one person has this e-mail address",
        "name the manager by id",
    )
    MANAGER_CONTRADICTED = (
        "manager_contradicted",
        "the two columns for the manager name different people (the other one: %(other)s)",
        "correct one of them, or leave it empty",
    )
    MANAGER_SELF = (
        "manager_self",
        "the person is their own manager",
        "leave the manager empty, or name somebody else",
    )
    MANAGER_LOOP = (
        "manager_loop",
        "the managers go round in a circle: %(loop)s",
        "correct the manager of one of them",
    )
    MANAGER_INACTIVE = (
        "manager_inactive",
        "the manager has left",
        "name the present manager",
    )
    MANAGER_REFUSED = (
        "manager_refused",
        "the row of the manager was refused",
        "correct the row of the manager",
    )
    PEER_SELF = (
        "peer_self",
        "the person is named as their own peer",
        "name somebody else",
    )
    REFERENCE_MISSING = (
        "reference_missing",
        "the cell is empty",
        "name the person by id or e-mail address",
    )

    def __init__(self, code: str, what: str, todo: str) -> None:
        self.code = code
        self.what = what
        self.todo = todo


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a file, or deserves a look.

    Attributes:
        kind: What it is.
        line: The line on which the row starts; 0 for the whole file.
        column: The header of the cell as the file writes it; empty for the whole row.
        value: The cell, shortened.
        fields: What the templates of the kind name.
    """

    kind: ProblemKind
    line: int = 0
    column: str = ""
    value: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Say what is wrong, in English."""
        return self.kind.what % self.fields

    @property
    def todo(self) -> str:
        """Say what to do, in English."""
        return self.kind.todo % self.fields


def shorten(value: str) -> str:
    """Keep a cell readable in a report: one line, not too long, no control characters.

    Args:
        value: The cell as the file has it.
    """
    line = "".join(letter if letter.isprintable() else " " for letter in value)
    return line if len(line) <= _LONGEST_VALUE else line[: _LONGEST_VALUE - 1] + "…"
