"""Read what a new cycle is made of from the arguments: relations, people, peers."""

from pathlib import Path
from typing import Any, Final

import click

from relevo import RelevoError
from relevo.cli import gettext as _
from relevo_apps.evaluations.importer import PeersFile, read_peers
from relevo_apps.evaluations.model.cycles import Relation

EVERYBODY: Final = "all"


class PeopleNotFound(RelevoError):
    """The participants or peers that were named do not all exist."""

    template = (
        "nobody has these ids or addresses: %(unknown)s; nothing was created: "
        "correct them, or import the people first"
    )


class PeersRefused(RelevoError):
    """The file of peers has rows that cannot be used."""

    template = (
        "the file of peers has %(problems)s rows that cannot be used; nothing was created: "
        "correct them and try again"
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


def read_participants(given: str) -> list[str] | None:
    """Read who takes part: everybody, a file with one id a line, or ids with commas.

    Args:
        given: What --participants said.

    Returns:
        Ids of people, or None for everybody.
    """
    if given == EVERYBODY:
        return None
    file = Path(given)
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else given.replace(",", "\n")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(str(error), param_hint="--participants") from None
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))


def read_peers_file(file: Path) -> PeersFile:
    """Read the peers file."""
    with file.open("rb") as source:
        return read_peers(source)


def read_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Read the name of a cycle: one line, not empty."""
    name = " ".join(value.split())
    if not name or not name.isprintable():
        raise click.BadParameter(_("a cycle needs a name that can be printed on one line"))
    return name
