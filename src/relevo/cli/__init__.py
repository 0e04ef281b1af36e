"""The `relevo` command, and what applications need to add commands of their own.

This room speaks to the shell and decides nothing: it asks the engine, and prints.
"""

from relevo.cli.declare import Late, command, group, option
from relevo.cli.durations import Duration
from relevo.cli.exits import Exit, register_exit
from relevo.cli.language import gettext, ngettext
from relevo.cli.main import build_cli
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.tenancy import read_tenancy

__all__ = [
    "Duration",
    "Exit",
    "Late",
    "Shell",
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
]
