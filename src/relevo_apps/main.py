"""The composition root: the one file that knows every application.

It names them and imports none of them before they are needed, so that
``relevo --help`` answers at once.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from relevo.cli import Late, build_cli

if TYPE_CHECKING:
    from relevo import Relevo
    from relevo.db.migrate import Line

COMMANDS: Final[tuple[Late, ...]] = ()
"""The commands of the applications, in the order that people see them."""

CATALOGUES: Final[tuple[str, ...]] = ()
"""The packages whose ``locale`` folders hold the applications' texts."""


@cache
def application() -> "Relevo":
    """Answer the application with the kinds of every business."""
    from relevo import Relevo  # noqa: PLC0415 -- --help must not import the engine

    return Relevo()


def lines() -> "Sequence[Line]":
    """Answer the lines of migrations of every business."""
    from relevo.db.migrate import Line  # noqa: PLC0415 -- the same

    return [Line("evaluations", "relevo_apps.evaluations.migrations")]


def main() -> None:
    """Run the `relevo` command."""
    build_cli(app=application, lines=lines, commands=COMMANDS, catalogues=CATALOGUES)()
