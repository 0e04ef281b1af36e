"""What is said to the tables of people and manager edges."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from relevo import Call, Operation, load_statements
from relevo_apps.evaluations.model.people import (
    Headcount,
    KnownPerson,
    Language,
    Person,
    PersonRecord,
)
from relevo_apps.evaluations.model.text import sort_key

SQL = load_statements("relevo_apps.evaluations.store", "people.sql")
NIL = UUID(int=0)


def lock_people(tenant_id: UUID) -> Operation[None]:
    """Wait until no other import of the tenant runs, and keep others waiting."""
    yield Call(SQL["lock_people"], {"tenant_id": tenant_id}, needs_transaction=True)


def list_known_people(tenant_id: UUID) -> Operation[list[KnownPerson]]:
    """Read everybody of the tenant, as far as an import must know them."""
    rows = yield Call(SQL["list_known_people"], {"tenant_id": tenant_id})
    return [KnownPerson(*row) for row in rows]


def upsert_people(
    tenant_id: UUID, records: Sequence[PersonRecord], columns: frozenset[str]
) -> Operation[set[str]]:
    """Write the people that are new or differ; answer their external ids."""
    rows = yield Call(
        SQL["upsert_people"],
        {
            "tenant_id": tenant_id,
            "external_ids": [record.external_id for record in records],
            "full_names": [record.full_name for record in records],
            "first_names": [record.first_name for record in records],
            "last_names": [record.last_name for record in records],
            "sort_keys": [
                sort_key(
                    first_name=record.first_name,
                    last_name=record.last_name,
                    full_name=record.full_name,
                )
                for record in records
            ],
            "emails": [record.email for record in records],
            "languages": [record.language.value for record in records],
            "departments": [record.department for record in records],
            "job_titles": [record.job_title for record in records],
            "hire_dates": [record.hire_date for record in records],
            "actives": [record.active for record in records],
            "has_email": "email" in columns,
            "has_language": "language" in columns,
            "has_department": "department" in columns,
            "has_job_title": "job_title" in columns,
            "has_hire_date": "hire_date" in columns,
            "has_active": "active" in columns,
        },
        needs_transaction=True,
    )
    return set(rows[0][0])


def move_people(
    tenant_id: UUID, managers: Sequence[tuple[str, str | None]], effective_on: date | None
) -> Operation[set[str]]:
    """Make the present managers what the pairs of external ids say; answer who moved."""
    params = {
        "tenant_id": tenant_id,
        "external_ids": [person for person, _ in managers],
        "managers": [manager for _, manager in managers],
        "effective_on": effective_on,
    }
    closed = yield Call(SQL["close_manager_edges"], params, needs_transaction=True)
    opened = yield Call(SQL["open_manager_edges"], params, needs_transaction=True)
    return {*closed[0][0], *opened[0][0]}


def count_people(tenant_id: UUID) -> Operation[Headcount]:
    """Count the active people and those who lead somebody."""
    rows = yield Call(SQL["count_people"], {"tenant_id": tenant_id})
    return Headcount(*rows[0])


def list_people(
    tenant_id: UUID, limit: int, after: tuple[str, UUID] | None
) -> Operation[list[Person]]:
    """Read one page of people by name."""
    key, last_id = after or ("", NIL)
    rows = yield Call(
        SQL["list_people"],
        {"tenant_id": tenant_id, "limit": limit, "after_key": key, "after_id": last_id},
    )
    return [
        Person(
            id=row[0],
            external_id=row[1],
            full_name=row[2],
            email=row[3],
            language=Language(row[4]),
            department=row[5],
            job_title=row[6],
            active=row[7],
            manager=row[8],
            sort_key=row[9],
        )
        for row in rows
    ]


def resolve_people(tenant_id: UUID, references: Sequence[str]) -> Operation[dict[str, UUID]]:
    """Answer whom each external id or address names; unknown ones are missing."""
    rows = yield Call(
        SQL["resolve_people"], {"tenant_id": tenant_id, "references": list(references)}
    )
    return {row[0]: row[1] for row in rows}
