"""Let time pass in a made-up organisation: people move, leave and join."""

from dataclasses import replace
from random import Random

from relevo_apps.evaluations.generator.organisation import Organisation, organise
from relevo_apps.evaluations.model.people import PersonRecord


def change_organisation(
    organisation: Organisation, *, seed: int = 1, moves: int = 0, leavers: int = 0, joiners: int = 0
) -> Organisation:
    """Answer the organisation as it is later; nobody's manager is lost or in a circle.

    Only people who lead nobody move or leave, as far as there are such people.

    Args:
        organisation: As it was.
        seed: The same seed makes the same changes.
        moves: How many people get another manager.
        leavers: How many people become inactive.
        joiners: How many people are new.
    """
    random = Random(seed)  # noqa: S311 - made-up changes are no secret
    people = {person.external_id: person for person in organisation.people}
    managers = sorted({person.manager for person in people.values() if person.manager})
    free = sorted(one for one in people if one not in set(managers))
    random.shuffle(free)
    moving, leaving = free[:moves], free[moves : moves + leavers]
    for one in moving:
        others = [manager for manager in managers if manager != people[one].manager]
        if others:
            people[one] = replace(people[one], manager=random.choice(others))
    for one in leaving:
        people[one] = replace(people[one], active=False)
    for number in range(joiners):
        joiner = _joiner(number, random.choice(organisation.people), random.choice(managers))
        people[joiner.external_id] = joiner
    lines = (replace(person, line=line) for line, person in enumerate(people.values(), 2))
    return organise(tuple(lines))


def _joiner(number: int, model: PersonRecord, manager: str) -> PersonRecord:
    """Answer somebody new who is called like somebody known."""
    domain = (model.email or "@example.com").partition("@")[2]
    return replace(
        model,
        external_id=f"N{number + 1}",
        email=f"joiner.{number + 1}@{domain}",
        manager=manager,
        active=True,
    )
