"""Read what a new cycle is made of from the arguments: relations, people, peers."""

import re
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import click

from relevo import RelevoError
from relevo.cli import Shell
from relevo.cli import gettext as _
from relevo_apps.evaluations.commands.texts import show_problems
from relevo_apps.evaluations.importer import PeersFile, read_peers
from relevo_apps.evaluations.model.cycles import Relation
from relevo_apps.evaluations.model.reports import Added

EVERYBODY: Final = "all"

LONGEST_NAME: Final = 120

_PATH_LIKE: Final = re.compile(r"/|\\|\.(txt|csv|tsv|lst|list|dat|xlsx?)$", re.IGNORECASE)
"""What nobody would call a person: it names a file."""


class PeopleNotFound(RelevoError):
    """The participants or peers that were named do not all exist."""

    template = (
        "nobody has these ids or addresses: %(unknown)s; nothing was changed: "
        "correct them, or import the people first"
    )


class PeersRefused(RelevoError):
    """The file of peers has rows that cannot be used."""

    template = (
        "the file of peers has %(problems)s rows that cannot be used; nothing was changed: "
        "correct them and try again"
    )


class Day(click.ParamType[date]):
    """A day as it is written everywhere: year, month, day."""

    name = "day"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Read what was written."""
        if isinstance(value, date):
            return value
        try:
            return datetime.strptime(str(value).strip(), "%Y-%m-%d").date()  # noqa: DTZ007 -- a day
        except ValueError:
            self.fail(
                _("%(value)r is no day; write year-month-day, such as 2026-03-31")
                % {"value": value},
                param,
                ctx,
            )


class Rules(click.ParamType[tuple[Relation, ...]]):
    """The relations that a cycle asks for, with commas between them."""

    name = "rules"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Relation, ...]:
        """Read what was written."""
        if isinstance(value, tuple):
            return value
        words = [word.strip().lower() for word in str(value).split(",") if word.strip()]
        known = {relation.value for relation in Relation}
        if not words or not known.issuperset(words):
            self.fail(
                _("%(value)r are no rules; name some of %(known)s, with commas between them")
                % {"value": value, "known": ", ".join(Relation)},
                param,
                ctx,
            )
        return tuple(dict.fromkeys(Relation(word) for word in words))


def read_participants(given: str, hint: str = "--participants") -> list[str] | None:
    """Read who takes part: everybody, a file with one id a line, or ids with commas.

    Args:
        given: What the option said.
        hint: The name of the option, for a refusal.

    Returns:
        Ids of people, or None for everybody.
    """
    if given == EVERYBODY:
        return None
    file = Path(given)
    if not file.is_file() and _PATH_LIKE.search(given):
        raise click.BadParameter(_("there is no file %(file)s") % {"file": given}, param_hint=hint)
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else given.replace(",", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(str(error), param_hint=hint) from None
    ids = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not ids:
        raise click.BadParameter(
            _("nobody is named; name everybody with all, a file, or ids with commas"),
            param_hint=hint,
        )
    return ids


def read_peers_file(shell: Shell, file: Path) -> PeersFile:
    """Read the peers file.

    Raises:
        PeersRefused: Some of its rows cannot be used; they were shown.
    """
    with file.open("rb") as source:
        found = read_peers(source)
    if found.problems:
        show_problems(shell, _("Problems"), found.problems)
        raise PeersRefused(problems=len(found.problems))
    return found


def require_known(*answers: Added | None) -> None:
    """Refuse references that name nobody.

    Raises:
        PeopleNotFound: There are some.
    """
    unknown = [each for answer in answers if answer for each in answer.unknown]
    if unknown:
        raise PeopleNotFound(unknown=_some(unknown), all_unknown=tuple(unknown))


def _some(names: list[str], shown: int = 10) -> str:
    listed, more = ", ".join(names[:shown]), len(names) - shown
    if more <= 0:
        return listed
    return _("%(listed)s and %(more)d more") % {"listed": listed, "more": more}


def read_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Read the name of a cycle: one line, not empty, not too long, and no option."""
    name = " ".join(value.split())
    if not name or not name.isprintable() or name.startswith("-"):
        raise click.BadParameter(
            _("a cycle needs a name that can be printed on one line and begins with no dash")
        )
    if len(name) > LONGEST_NAME:
        raise click.BadParameter(
            _("the name has %(length)d characters, and at most %(most)d are allowed; shorten it")
            % {"length": len(name), "most": LONGEST_NAME}
        )
    return name
