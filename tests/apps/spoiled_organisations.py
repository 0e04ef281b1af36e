"""Spoil rows of a made-up file in the ways that real files are spoiled.

Each defect is known by the problem that an import must report for it.
"""

from dataclasses import replace
from random import Random

from relevo_apps.evaluations.generator.organisation import COLUMNS, Organisation
from relevo_apps.evaluations.importer.problems import ProblemKind

_PLACES = {column: place for place, column in enumerate(COLUMNS)}
# What a cell is replaced with; the name of a column takes that cell of the same row.
_CELLS = {
    ProblemKind.ID_MISSING: ("employee_id", ""),
    ProblemKind.EMAIL_BAD: ("email", "ana..perez@example"),
    ProblemKind.LANGUAGE_UNKNOWN: ("language", "klingon"),
    ProblemKind.DATE_BAD: ("hire_date", "2024-02-30"),
    ProblemKind.DATE_AMBIGUOUS: ("hire_date", "03/04/2024"),
    ProblemKind.STATUS_UNKNOWN: ("status", "maybe"),
    ProblemKind.MANAGER_UNKNOWN: ("manager_id", "no-such-person"),
    ProblemKind.BAD_CHARACTER: ("job_title", "Analyst\x07"),
}
DEFECTS = (*_CELLS, ProblemKind.MANAGER_SELF, ProblemKind.WRONG_WIDTH)


def add_defects(
    organisation: Organisation, count: int, *, seed: int = 1
) -> tuple[Organisation, dict[int, ProblemKind]]:
    """Answer the organisation with spoiled rows, and what is wrong on which line.

    Only people who lead nobody are spoiled, so that no problem causes another.

    Args:
        organisation: A clean one.
        count: How many rows are spoiled, at most as many as there are such people.
        seed: The same seed spoils the same rows.
    """
    random = Random(seed)  # noqa: S311 - made-up mistakes are no secret
    managers = {person.manager for person in organisation.people}
    free = [
        place
        for place, person in enumerate(organisation.people)
        if person.external_id not in managers
    ]
    rows = list(organisation.rows)
    expected: dict[int, ProblemKind] = {}
    for place in sorted(random.sample(free, min(count, len(free)))):
        kind = DEFECTS[len(expected) % len(DEFECTS)]
        rows[place] = _spoil(rows[place], kind)
        expected[organisation.people[place].line] = kind
    return replace(organisation, rows=tuple(rows)), expected


def _spoil(row: tuple[str, ...], kind: ProblemKind) -> tuple[str, ...]:
    cells = list(row)
    if kind is ProblemKind.WRONG_WIDTH:
        return (*cells, "one too many")
    if kind is ProblemKind.MANAGER_SELF:
        cells[_PLACES["manager_id"]] = cells[_PLACES["employee_id"]]
    else:
        column, value = _CELLS[kind]
        cells[_PLACES[column]] = value
    return tuple(cells)
