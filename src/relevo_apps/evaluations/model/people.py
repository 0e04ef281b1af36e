"""What a person is, and what the people file says about one."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from uuid import UUID


class Language(StrEnum):
    """The languages in which people are written to."""

    SPANISH = "es"
    PORTUGUESE = "pt"
    ENGLISH = "en"


@dataclass(frozen=True, slots=True)
class PersonRecord:
    """What one row of the people file says.

    Attributes:
        line: The line of the file on which the row starts.
        external_id: The person's id in the system that wrote the file.
        full_name: What is shown.
        first_name: Empty when the file has full names only.
        last_name: Empty for the same reason.
        email: None where the file says nothing.
        language: The language to write in.
        manager: The external id of the person they report to, or their address.
        manager_email: The same in a column of its own.
        department: None where the file says nothing.
        job_title: None where the file says nothing.
        hire_date: None where the file says nothing.
        active: False for people who left.
    """

    line: int
    external_id: str
    full_name: str
    first_name: str = ""
    last_name: str = ""
    email: str | None = None
    language: Language = Language.ENGLISH
    manager: str | None = None
    manager_email: str | None = None
    department: str | None = None
    job_title: str | None = None
    hire_date: date | None = None
    active: bool = True


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """What the database already says about a person, as far as an import must know.

    Attributes:
        external_id: The person's id.
        full_name: What is shown.
        email: Their address, if any.
        active: False for people who left.
        manager: The external id of the person they report to, if any.
    """

    external_id: str
    full_name: str
    email: str | None
    active: bool
    manager: str | None


@dataclass(frozen=True, slots=True)
class Person:
    """A person as lists show them.

    Attributes:
        id: The id inside relevo.
        external_id: The id in the system that wrote the people file.
        full_name: What is shown.
        email: None when nobody can write to them.
        language: The language to write in.
        department: None when unknown.
        job_title: None when unknown.
        active: False for people who left.
        manager: The full name of the person they report to, if any.
        sort_key: The text that lists are sorted by; with `id`, where a page goes on.
    """

    id: UUID
    external_id: str
    full_name: str
    email: str | None
    language: Language
    department: str | None
    job_title: str | None
    active: bool
    manager: str | None
    sort_key: str


@dataclass(frozen=True, slots=True)
class Headcount:
    """How many people there are.

    Attributes:
        people: Everybody who is active.
        managers: Those to whom somebody active reports.
    """

    people: int
    managers: int
