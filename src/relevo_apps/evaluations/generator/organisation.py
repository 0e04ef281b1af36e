"""Make up an organisation: one head, managers with a handful of reports each, three languages.

Everything follows from the size and the seed, so that two machines make the same file.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from random import Random

from relevo_apps.evaluations.generator.names import NAMES
from relevo_apps.evaluations.model.people import Language, PersonRecord
from relevo_apps.evaluations.model.text import fold

SMALLEST, LARGEST = 10, 50_000
FIRST_ID = 1000
COLUMNS = (
    "employee_id",
    "first_name",
    "last_name",
    "email",
    "manager_id",
    "language",
    "department",
    "job_title",
    "hire_date",
    "status",
)
_FEWEST_REPORTS, _MOST_REPORTS = 4, 9
_FIRST_DAY = date(2005, 1, 3)
_DAYS = 7000


@dataclass(frozen=True, slots=True)
class Organisation:
    """People and who they report to.

    Attributes:
        people: Managers may come after their reports.
        rows: The cells of the file in the order of `COLUMNS`, one row for each person.
    """

    people: tuple[PersonRecord, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def managers(self) -> int:
        """Count the people who lead somebody."""
        return len({person.manager for person in self.people if person.manager})

    def csv(self) -> str:
        """Write the people file."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\r\n")
        writer.writerow(COLUMNS)
        writer.writerows(self.rows)
        return text.getvalue()


def generate_organisation(
    size: int,
    *,
    seed: int = 1,
    languages: Sequence[Language] = tuple(Language),
    domain: str = "example.com",
) -> Organisation:
    """Make up an organisation.

    Args:
        size: How many people, from 10 to 50,000.
        seed: The same seed makes the same people.
        languages: The languages that people have, in equal shares.
        domain: Where their addresses are.

    Raises:
        ValueError: The size is out of bounds.
    """
    if not SMALLEST <= size <= LARGEST:
        message = f"an organisation has {SMALLEST} to {LARGEST} people, not {size}"
        raise ValueError(message)
    random = Random(seed)  # noqa: S311 - made-up names are no secret
    people: list[PersonRecord] = []
    depths: list[int] = []
    taken: dict[str, int] = {}
    for place, leader in enumerate(_leaders(size, random)):
        depth = 0 if leader is None else depths[leader] + 1
        depths.append(depth)
        above = None if leader is None else people[leader]
        people.append(
            _person(
                place,
                depth,
                above,
                random=random,
                languages=languages,
                domain=domain,
                taken=taken,
            )
        )
    random.shuffle(people)
    lines = (replace(person, line=line) for line, person in enumerate(people, 2))
    return organise(tuple(lines))


def organise(people: tuple[PersonRecord, ...]) -> Organisation:
    """Put people into an organisation with the rows of their file.

    Args:
        people: In the order of the file.
    """
    return Organisation(people, tuple(_cells(person) for person in people))


def _leaders(size: int, random: Random) -> list[int | None]:
    """Answer the place of each person's manager: the tree is filled level by level."""
    leaders: list[int | None] = [None]
    leader = 0
    while len(leaders) < size:
        reports = random.randint(_FEWEST_REPORTS, _MOST_REPORTS)
        leaders.extend([leader] * min(reports, size - len(leaders)))
        leader += 1
    return leaders


def _person(
    place: int,
    depth: int,
    above: PersonRecord | None,
    *,
    random: Random,
    languages: Sequence[Language],
    domain: str,
    taken: dict[str, int],
) -> PersonRecord:
    language = random.choice(languages)
    names = NAMES[language]
    first = random.choice(names.first)
    last = " ".join(random.sample(names.last, names.family_names))
    team = random.randrange(1, len(names.departments)) if depth else 0
    account = ".".join(_account(part) for part in (first, last))
    taken[account] = taken.get(account, 0) + 1
    number = taken[account] if taken[account] > 1 else ""
    return PersonRecord(
        line=0,
        external_id=str(FIRST_ID + place),
        full_name=f"{first} {last}",
        first_name=first,
        last_name=last,
        email=f"{account}{number}@{domain}",
        language=language,
        manager=above.external_id if above else None,
        department=names.departments[team],
        job_title=names.titles[min(depth, len(names.titles) - 1)],
        hire_date=_FIRST_DAY + timedelta(days=random.randrange(_DAYS)),
    )


def _account(name: str) -> str:
    return "".join(letter for letter in fold(name) if letter.isascii() and letter.isalnum())


def _cells(person: PersonRecord) -> tuple[str, ...]:
    return (
        person.external_id,
        person.first_name,
        person.last_name,
        person.email or "",
        person.manager or "",
        person.language.value,
        person.department or "",
        person.job_title or "",
        person.hire_date.isoformat() if person.hire_date else "",
        "active" if person.active else "inactive",
    )
