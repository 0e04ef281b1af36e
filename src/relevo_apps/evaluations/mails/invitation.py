"""Write the mail that asks a person for their evaluations, in their language."""

from datetime import date
from typing import Final

from relevo import Translator, translator
from relevo_apps.evaluations.mails.letter import Letter, compose, one_line
from relevo_apps.evaluations.model.cycles import Relation
from relevo_apps.evaluations.model.invitation import Asked, Invitation

PACKAGE: Final = "relevo_apps.evaluations"

# What the participant is to the reader; the relation says what the reader is to them.
_RELATIONS: Final = {
    Relation.SELF: "your self-evaluation",
    Relation.MANAGER: "reports to you",
    Relation.UPWARD: "your manager",
    Relation.PEER: "your colleague",
}


def write_invitation(invitation: Invitation) -> Letter:
    """Write the one mail that lists all evaluations asked of a person in a cycle.

    Args:
        invitation: A person who is asked for at least one evaluation.
    """
    words = translator(invitation.language.value, PACKAGE)
    count = len(invitation.asked)
    about = {
        "cycle": one_line(invitation.cycle),
        "name": one_line(invitation.first_name or invitation.full_name),
        "count": count,
    }
    subject = words.ngettext(
        "%(cycle)s: %(count)d evaluation is waiting for you",
        "%(cycle)s: %(count)d evaluations are waiting for you",
        count,
    )
    beginning = words.ngettext(
        "The evaluation cycle “%(cycle)s” has begun, and you are asked for %(count)d evaluation:",
        "The evaluation cycle “%(cycle)s” has begun, and you are asked for %(count)d evaluations:",
        count,
    )
    return compose(
        language=words.language,
        subject=subject % about,
        before=[words.gettext("Hello %(name)s,") % about, beginning % about],
        items=[_item(words, asked) for asked in invitation.asked],
        after=[
            *_due(words, invitation.due_on, count),
            words.gettext(
                "If somebody on this list is not yours to evaluate, please tell your HR team."
            ),
            words.gettext("This message was sent automatically; there is no need to answer it."),
        ],
    )


def _item(words: Translator, asked: Asked) -> str:
    return f"{asked.participant} ({words.gettext(_RELATIONS[asked.relation])})"


def _due(words: Translator, due_on: date | None, count: int) -> list[str]:
    if due_on is None:
        return []
    # Loads the calendars of every language, so only a worker that writes to people pays for it.
    from babel.dates import format_date  # noqa: PLC0415

    text = words.ngettext(
        "Please complete it by %(date)s.", "Please complete them by %(date)s.", count
    )
    return [text % {"date": format_date(due_on, "long", locale=words.language)}]
