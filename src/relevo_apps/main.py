"""The composition root: the one file that knows every application.

It names them and imports none of them before they are needed, so that
``relevo --help`` answers at once.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from relevo.cli import Late, build_cli, read_tenancy
from relevo_apps.evaluations import commands as evaluations

if TYPE_CHECKING:
    from relevo import Line, Relevo
    from relevo.cli import Checkup

COMMANDS: Final[tuple[Late, ...]] = evaluations.COMMANDS
"""The commands of the applications, in the order that people see them."""

CATALOGUES: Final[tuple[str, ...]] = (evaluations.PACKAGE,)
"""The packages whose ``locale`` folders hold the applications' texts."""


@cache
def application() -> "Relevo":
    """Answer the application with the kinds of every business.

    RELEVO_TENANTS says whether it is for one tenant or for many, as the installation is.
    """
    from relevo import Relevo  # noqa: PLC0415 -- --help must not import the engine
    from relevo_apps.evaluations import jobs  # noqa: PLC0415 -- the same

    app = Relevo(tenants=read_tenancy())
    jobs.declare_notifications(app, scale=jobs.backoff_scale())
    return app


def lines() -> "Sequence[Line]":
    """Answer the lines of migrations of every business."""
    from relevo import Line  # noqa: PLC0415 -- the same

    return [Line("evaluations", "relevo_apps.evaluations.migrations")]


def checkups() -> "Sequence[Checkup]":
    """Answer what `relevo doctor` looks at for every business."""
    from relevo_apps.evaluations.commands.checkups import CHECKUPS  # noqa: PLC0415 -- the same

    return CHECKUPS


def main() -> None:
    """Run the `relevo` command."""
    evaluations.register_exits()
    build_cli(
        app=application,
        lines=lines,
        commands=COMMANDS,
        catalogues=CATALOGUES,
        checkups=checkups,
    )()


if __name__ == "__main__":
    main()
