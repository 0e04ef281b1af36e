"""Bring a people file into the database, and show who is there."""

from datetime import date
from uuid import UUID

from relevo import Operation
from relevo_apps.evaluations.importer import ImportReport, PeopleFile, check_people
from relevo_apps.evaluations.model.people import Headcount, Person
from relevo_apps.evaluations.store import people as people_rows
from relevo_apps.evaluations.store.planning import set_wise


def import_people(
    tenant_id: UUID,
    file: PeopleFile,
    *,
    partial: bool = False,
    effective_on: date | None = None,
) -> Operation[ImportReport]:
    """Import a people file: all rows, or none when one is refused.

    People are found by their external id. The same file again changes nothing; a person
    whose manager differs moves, and the earlier edge stays with the day on which it
    ended. People who are not in the file stay as they are, and so do columns that it
    does not have. The number of statements does not depend on the rows.

    Args:
        tenant_id: Whose people they are.
        file: What `read_people` read.
        partial: Import the good rows although others are refused.
        effective_on: The day on which moves take effect; None is today.
    """
    return (yield from set_wise(_import_people(tenant_id, file, partial, effective_on)))


def _import_people(
    tenant_id: UUID,
    file: PeopleFile,
    partial: bool,  # noqa: FBT001 - the public function names it
    effective_on: date | None,
) -> Operation[ImportReport]:
    yield from people_rows.lock_people(tenant_id)
    known = yield from people_rows.list_known_people(tenant_id)
    checked = check_people(file, known, partial=partial)
    before = {person.external_id for person in known}
    written: set[str] = set()
    moved: set[str] = set()
    if checked.records:
        written = yield from people_rows.upsert_people(tenant_id, checked.records, file.columns)
    if checked.managers:
        moved = yield from people_rows.move_people(tenant_id, checked.managers, effective_on)
    headcount = yield from people_rows.count_people(tenant_id)
    created = written - before
    updated = (written | moved) & before
    return ImportReport(
        applied=bool(checked.records),
        rows=file.rows,
        created=len(created),
        updated=len(updated),
        unchanged=len(checked.records) - len(created) - len(updated),
        moved=len(moved & before),
        refused=checked.refused,
        problems=checked.problems,
        warnings=checked.warnings,
        headcount=headcount,
        encoding=file.encoding,
        delimiter=file.delimiter,
    )


def count_people(tenant_id: UUID) -> Operation[Headcount]:
    """Count the active people of a tenant and those who lead somebody."""
    return (yield from people_rows.count_people(tenant_id))


def list_people(
    tenant_id: UUID, *, limit: int = 100, after: tuple[str, UUID] | None = None
) -> Operation[list[Person]]:
    """Answer one page of people, sorted by family name whatever its accents.

    Args:
        tenant_id: Whose people they are.
        limit: How many at most.
        after: The `sort_key` and `id` of the last one seen; None begins at the first.
    """
    return (yield from people_rows.list_people(tenant_id, limit, after))
