"""What an import did, or why it did nothing."""

from dataclasses import dataclass

from relevo_apps.evaluations.importer.problems import Problem
from relevo_apps.evaluations.model.people import Headcount


@dataclass(frozen=True, slots=True)
class ImportReport:
    """One import of a people file; rows are created, updated, unchanged or refused.

    Attributes:
        applied: Whether anything was imported.
        rows: How many rows the file has.
        created: How many people are new.
        updated: How many people changed, in a column or in whom they report to.
        unchanged: How many people are as they were.
        moved: How many of those who were known have another manager, or none now.
        refused: How many rows were not imported.
        problems: What is wrong, sorted by line.
        warnings: What deserves a look, sorted by line.
        headcount: The people and managers of the tenant afterwards.
        encoding: What the file was decoded from.
        delimiter: What stands between two cells.
    """

    applied: bool
    rows: int
    created: int
    updated: int
    unchanged: int
    moved: int
    refused: int
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    headcount: Headcount
    encoding: str
    delimiter: str
