"""Read one row of the people file: its cells, and what is wrong with them."""

from collections.abc import Sequence
from datetime import date

from relevo_apps.evaluations.importer.cells import (
    LONGEST_CELL,
    parse_language,
    parse_status,
    split_name,
)
from relevo_apps.evaluations.importer.dates import DateOrder, parse_date
from relevo_apps.evaluations.importer.headers import Header
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind, shorten
from relevo_apps.evaluations.model.people import Language, PersonRecord
from relevo_apps.evaluations.model.text import clean, is_address


class Row:
    """One row while it is read.

    Args:
        line: The line on which it starts.
        cells: Its cells.
        header: The columns of the file.
    """

    def __init__(self, line: int, cells: Sequence[str], header: Header) -> None:
        self.line = line
        self.cells = cells
        self.header = header
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def get(self, column: str) -> str:
        """Answer a cell cleaned; empty when the column is missing or the cell is refused."""
        place = self.header.places.get(column)
        if place is None:
            return ""
        raw = self.cells[place]
        text = clean(raw)
        if text is None:
            self.refuse(ProblemKind.BAD_CHARACTER, column, raw)
            return ""
        if len(text) > LONGEST_CELL:
            self.refuse(ProblemKind.TOO_LONG, column, raw, limit=LONGEST_CELL)
            return ""
        return text

    def refuse(
        self, kind: ProblemKind, column: str = "", value: str = "", **fields: object
    ) -> None:
        """Note what is wrong; the row is not imported."""
        title = self.header.titles.get(column, "")
        self.problems.append(Problem(kind, self.line, title, shorten(value), fields))

    def has_all_cells(self) -> bool:
        """Refuse a row that is wider or narrower than the header."""
        cells, headers = len(self.cells), self.header.width
        if cells != headers:
            self.refuse(ProblemKind.WRONG_WIDTH, cells=cells, headers=headers)
        return cells == headers

    def read(self, date_order: DateOrder | None, language: Language) -> PersonRecord | None:
        """Answer what the row says, as far as it can be read; None when it names nobody.

        Args:
            date_order: The declared order of day and month.
            language: What an empty cell means.
        """
        if not self.has_all_cells():
            return None
        external_id = self.get("external_id")
        if not external_id and not self.problems:
            self.refuse(ProblemKind.ID_MISSING, "external_id")
        first_name, last_name, full_name = self._name()
        record = PersonRecord(
            line=self.line,
            external_id=external_id,
            full_name=full_name,
            first_name=first_name,
            last_name=last_name,
            email=self._email(),
            language=self._language(language),
            manager=self.get("manager") or None,
            manager_email=self.get("manager_email") or None,
            department=self.get("department") or None,
            job_title=self.get("job_title") or None,
            hire_date=self._date(date_order),
            active=self._status(),
        )
        return record if external_id else None

    def _name(self) -> tuple[str, str, str]:
        before = len(self.problems)
        first_name, last_name = self.get("first_name"), self.get("last_name")
        full_name = self.get("full_name")
        if full_name and not (first_name or last_name):
            first_name, last_name = split_name(full_name)
            if first_name:
                full_name = ""
        full_name = full_name or f"{first_name} {last_name}".strip()
        if not full_name and len(self.problems) == before:
            column = "full_name" if "full_name" in self.header.places else "first_name"
            self.refuse(ProblemKind.NAME_MISSING, column)
        return first_name, last_name, full_name

    def _email(self) -> str | None:
        before = len(self.problems)
        email = self.get("email")
        if email and not is_address(email):
            self.refuse(ProblemKind.EMAIL_BAD, "email", email)
        if len(self.problems) > before:
            return None
        if not email and "email" in self.header.places:
            title = self.header.titles["email"]
            self.warnings.append(Problem(ProblemKind.EMAIL_MISSING, self.line, title))
        return email or None

    def _language(self, default: Language) -> Language:
        text = self.get("language")
        language = parse_language(text) if text else default
        if language is None:
            self.refuse(ProblemKind.LANGUAGE_UNKNOWN, "language", text)
        return language or default

    def _date(self, order: DateOrder | None) -> date | None:
        text = self.get("hire_date")
        day = parse_date(text, order) if text else None
        if isinstance(day, ProblemKind):
            self.refuse(day, "hire_date", text)
            return None
        return day

    def _status(self) -> bool:
        text = self.get("active")
        status = parse_status(text) if text else True
        if status is None:
            self.refuse(ProblemKind.STATUS_UNKNOWN, "active", text)
        return status is not False
