"""The commands of evaluation cycles: they ask the services, and print.

This file only names them, so that ``relevo --help`` imports none.
"""

from typing import Final

from relevo.cli import Exit, Late, register_exit

PACKAGE: Final = "relevo_apps.evaluations"

COMMANDS: Final = (
    Late(
        "demo",
        f"{PACKAGE}.demo.command:demo",
        "Show the main job whole, on a database of its own.",
        extra="relevo[demo]",
    ),
    Late("people", f"{PACKAGE}.commands.people:people", "Import the people of an organisation."),
    Late(
        "cycle",
        f"{PACKAGE}.commands.cycle:cycle",
        "Prepare, activate and follow evaluation cycles.",
    ),
)

_EXITS: Final = {
    "errors.CycleNotFound": Exit.NOT_FOUND,
    "errors.CycleExists": Exit.CONFLICT,
    "errors.CycleNotDraft": Exit.CONFLICT,
    "errors.CycleNotActive": Exit.CONFLICT,
    "errors.RecallRefused": Exit.CONFLICT,
    "errors.ActivationBlocked": Exit.BLOCKED,
    "errors.PeersNotInRules": Exit.USAGE,
    "jobs.BadScale": Exit.USAGE,
    "commands.choosing.PeopleNotFound": Exit.NOT_FOUND,
    "demo.place.NoDemoHere": Exit.NOT_FOUND,
}


def register_exits() -> None:
    """Say with which code each refusal of evaluation cycles ends the command."""
    for name, code in _EXITS.items():
        register_exit(f"{PACKAGE}.{name}", code)
