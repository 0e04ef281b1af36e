"""What a letter says, decided without a database."""

from datetime import date

import pytest

from relevo_apps.evaluations.mails import write_invitation
from relevo_apps.evaluations.model.cycles import CycleState, Relation
from relevo_apps.evaluations.model.invitation import Asked, Invitation
from relevo_apps.evaluations.model.people import Language


def an_invitation(
    language: Language = Language.ENGLISH, count: int = 2, cycle: str = "2025", **changes: object
) -> Invitation:
    given = {
        "cycle": cycle,
        "state": CycleState.ACTIVE,
        "due_on": None,
        "full_name": "Ana Álvarez",
        "first_name": "Ana",
        "email": "ana@example.com",
        "language": language,
        "active": True,
        "asked": tuple(Asked(Relation.PEER, f"Person {n}") for n in range(1, count + 1)),
        **changes,
    }
    return Invitation(**given)


@pytest.mark.parametrize(
    ("language", "one", "many"),
    [
        (Language.ENGLISH, "1 evaluation is waiting", "2 evaluations are waiting"),
        (Language.SPANISH, "tiene 1 evaluación pendiente", "tiene 2 evaluaciones pendientes"),
        (Language.PORTUGUESE, "você tem 1 avaliação pendente", "você tem 2 avaliações pendentes"),
    ],
)
def test_the_subject_agrees_with_the_number(language: Language, one: str, many: str):
    assert one in write_invitation(an_invitation(language, 1)).subject
    assert many in write_invitation(an_invitation(language, 2)).subject


@pytest.mark.parametrize("language", list(Language))
def test_a_letter_is_written_in_one_language_only(language: Language):
    letter = write_invitation(an_invitation(language, due_on=date(2026, 3, 31)))

    english = ("Hello", "has begun", "Please complete", "your colleague", "automatically")
    found = [words for words in english if words in letter.text]
    assert found == (list(english) if language is Language.ENGLISH else [])


def test_without_a_due_day_nothing_is_said_of_one():
    assert "complete" not in write_invitation(an_invitation()).text


def test_a_line_break_in_a_name_does_not_reach_the_subject():
    letter = write_invitation(an_invitation(cycle="2025\r\nBcc: all@example.com"))

    assert letter.subject.startswith("2025 Bcc: all@example.com: ")
    assert letter.subject.isprintable()


def test_only_a_full_name_is_a_greeting_too():
    letter = write_invitation(an_invitation(first_name=""))

    assert letter.text.startswith("Hello Ana Álvarez,")
