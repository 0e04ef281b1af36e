"""Compare the people of a file with each other and with the database.

All of it is decided here, without a connection: what is wrong, which rows are imported,
and who reports to whom afterwards.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from relevo_apps.evaluations.importer.directory import Directory
from relevo_apps.evaluations.importer.people import PeopleFile
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind, shorten
from relevo_apps.evaluations.model.hierarchy import find_loops
from relevo_apps.evaluations.model.people import KnownPerson, PersonRecord
from relevo_apps.evaluations.model.text import address_key

_LONGEST_LOOP = 12


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What an import would do.

    Attributes:
        records: The rows to import.
        managers: Each of these people with the external id of their manager, if any;
            empty when the file says nothing about managers.
        problems: What is wrong with the file.
        warnings: What deserves a look.
        refused: How many rows are not imported.
    """

    records: tuple[PersonRecord, ...]
    managers: tuple[tuple[str, str | None], ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    refused: int


def check_people(
    file: PeopleFile, known: Iterable[KnownPerson], *, partial: bool = False
) -> CheckedFile:
    """Find what is wrong between rows, and decide which rows are imported.

    Args:
        file: The file as it was read.
        known: Everybody in the database.
        partial: Import the good rows although others are refused.
    """
    if not file.is_readable:
        problems = tuple(file.problems)
        return CheckedFile((), (), problems, tuple(file.warnings), file.rows)
    check = _Check(file, Directory(file.records, known, file.columns))
    check.duplicates()
    check.managers()
    check.conflicts(check.records)
    while partial and check.conflicts(check.accepted()):
        pass
    records = check.accepted() if partial or not check.problems else []
    return CheckedFile(
        records=tuple(records),
        managers=tuple((one.external_id, check.edges.get(one.external_id)) for one in records)
        if check.names_managers
        else (),
        problems=tuple(sorted(check.problems, key=lambda problem: problem.line)),
        warnings=tuple(sorted(check.warnings, key=lambda problem: problem.line)),
        refused=file.rows - len(records),
    )


@dataclass(slots=True)
class _Check:
    """The state of one check."""

    file: PeopleFile
    directory: Directory
    records: list[PersonRecord] = field(init=False)
    problems: list[Problem] = field(init=False)
    warnings: list[Problem] = field(init=False)
    refused: set[int] = field(init=False)
    edges: dict[str, str] = field(default_factory=dict)
    names_managers: bool = field(init=False)

    def __post_init__(self) -> None:
        self.records = self.file.records
        self.problems = list(self.file.problems)
        self.warnings = list(self.file.warnings)
        self.refused = set(self.file.refused)
        self.names_managers = bool(self.file.columns & {"manager", "manager_email"})

    def accepted(self) -> list[PersonRecord]:
        """Answer the rows that have no problem so far."""
        return [record for record in self.records if record.line not in self.refused]

    def refuse(
        self,
        record: PersonRecord,
        kind: ProblemKind,
        column: str,
        value: str | None,
        **fields: object,
    ) -> None:
        """Note what is wrong with a row; it is not imported."""
        title = self.file.titles.get(column, "")
        self.problems.append(Problem(kind, record.line, title, shorten(value or ""), fields))
        self.refused.add(record.line)

    def duplicates(self) -> None:
        """Refuse every row that shares its id or its address with another row."""
        by_id: Mapping[str, list[PersonRecord]] = defaultdict(list)
        by_email: Mapping[str, list[PersonRecord]] = defaultdict(list)
        for record in self.records:
            by_id[record.external_id].append(record)
            if record.email:
                by_email[address_key(record.email)].append(record)
        for rows in by_id.values():
            for record, other in _beside(rows):
                self.refuse(
                    record,
                    ProblemKind.ID_DUPLICATED,
                    "external_id",
                    record.external_id,
                    other=other.line,
                )
        for rows in by_email.values():
            for record, other in _beside(rows):
                self.refuse(
                    record, ProblemKind.EMAIL_DUPLICATED, "email", record.email, other=other.line
                )

    def managers(self) -> None:
        """Find out whom each row names as manager."""
        for record in self.records:
            manager = self._manager(record)
            if manager is None:
                continue
            if manager == record.external_id:
                self.refuse(record, ProblemKind.MANAGER_SELF, *_named(record))
                continue
            self.edges[record.external_id] = manager
            if not self.directory.active[manager]:
                column, value = _named(record)
                title = self.file.titles.get(column, "")
                self.warnings.append(
                    Problem(ProblemKind.MANAGER_INACTIVE, record.line, title, shorten(value))
                )

    def _manager(self, record: PersonRecord) -> str | None:
        found = self.directory.find(record.manager) if record.manager else None
        by_email = self.directory.find(record.manager_email) if record.manager_email else None
        # Some exports write the manager's name in one column and the address in another.
        if (
            record.manager
            and isinstance(by_email, str)
            and not isinstance(found, str)
            and self.directory.is_name_of(record.manager, by_email)
        ):
            found = by_email
        if isinstance(found, ProblemKind):
            self.refuse(record, found, "manager", record.manager)
            return None
        if isinstance(by_email, ProblemKind):
            self.refuse(record, by_email, "manager_email", record.manager_email)
            return None
        if found and by_email and found != by_email:
            other = record.manager_email
            self.refuse(
                record, ProblemKind.MANAGER_CONTRADICTED, "manager", record.manager, other=other
            )
            return None
        return found or by_email

    def conflicts(self, accepted: list[PersonRecord]) -> bool:
        """Refuse what could not stand in the database beside everybody else.

        Args:
            accepted: The rows that would be imported; of everybody else the database is right.

        Returns:
            Whether anything more was refused.
        """
        before = len(self.refused)
        present = {record.external_id: record for record in accepted}
        if "email" in self.file.columns:
            self._refuse_taken(accepted, present)
        if self.names_managers:
            self._refuse_orphans(accepted, present)
            self._refuse_loops(present)
        return len(self.refused) > before

    def _refuse_taken(
        self, accepted: list[PersonRecord], present: Mapping[str, PersonRecord]
    ) -> None:
        taken = {
            address_key(person.email): person.external_id
            for person in self.directory.known.values()
            if person.email and person.external_id not in present
        }
        for record in accepted:
            other = taken.get(address_key(record.email)) if record.email else None
            if other is not None:
                self.refuse(record, ProblemKind.EMAIL_TAKEN, "email", record.email, other=other)

    def _refuse_orphans(
        self, accepted: list[PersonRecord], present: Mapping[str, PersonRecord]
    ) -> None:
        for record in accepted:
            manager = self.edges.get(record.external_id)
            if manager and manager not in present and manager not in self.directory.known:
                self.refuse(record, ProblemKind.MANAGER_REFUSED, *_named(record))

    def _refuse_loops(self, present: Mapping[str, PersonRecord]) -> None:
        edges = {
            person.external_id: person.manager
            for person in self.directory.known.values()
            if person.manager and person.external_id not in present
        }
        edges.update((one, self.edges[one]) for one in present if one in self.edges)
        for loop in find_loops(edges, present):
            shown = [self.directory.show(one) for one in [*loop, loop[0]]]
            if len(shown) > _LONGEST_LOOP:
                half = _LONGEST_LOOP // 2
                shown = [*shown[:half], f"… ({len(loop)})", *shown[-half:]]
            members = [present[one] for one in loop if one in present]
            if members:
                first = members[0]
                self.refuse(first, ProblemKind.MANAGER_LOOP, *_named(first), loop=" → ".join(shown))
                self.refused.update(record.line for record in members)


def _beside(rows: list[PersonRecord]) -> list[tuple[PersonRecord, PersonRecord]]:
    """Pair each row with another of the same group; the first with the second."""
    return [(row, rows[0] if place else rows[1]) for place, row in enumerate(rows) if len(rows) > 1]


def _named(record: PersonRecord) -> tuple[str, str]:
    """Answer the column in which a row names the manager, and what it says."""
    if record.manager:
        return "manager", record.manager
    return "manager_email", record.manager_email or ""
