"""The `relevo` command, and what applications need to add commands of their own.

This room speaks to the shell and decides nothing: it asks the engine, and prints. The
names below are public; `Database` is imported when it is asked for, because it takes
the driver along.
"""

from typing import TYPE_CHECKING

from relevo.cli.checkup import Checkup
from relevo.cli.declare import Late, Whole, command, group, option
from relevo.cli.durations import Duration
from relevo.cli.exits import Exit, register_exit
from relevo.cli.language import gettext, ngettext, say_error
from relevo.cli.main import build_cli
from relevo.cli.printing import Progress
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.tenancy import read_tenancy, tenant_option

if TYPE_CHECKING:
    from relevo.cli.database import Database

__all__ = [
    "Checkup",
    "Database",
    "Duration",
    "Exit",
    "Late",
    "Progress",
    "Shell",
    "Whole",
    "build_cli",
    "command",
    "gettext",
    "group",
    "ngettext",
    "option",
    "options",
    "pass_shell",
    "read_tenancy",
    "register_exit",
    "say_error",
    "tenant_option",
]


def __getattr__(name: str) -> object:
    """Import the one name that is not cheap when it is first asked for."""
    if name == "Database":
        from relevo.cli.database import Database  # noqa: PLC0415 -- the reason above

        return Database
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
