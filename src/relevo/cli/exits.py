"""The exit codes of the command, and which error ends with which: one table.

Classes stand here by their full names, so that the table costs no import.
"""

from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    """How a command ended; scripts rely on the numbers."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    CHECK_FAILED = 5
    BLOCKED = 6
    UNREACHABLE = 69
    HUNG = 70
    INTERRUPTED = 130


_EXITS: Final[dict[str, Exit]] = {
    "relevo.engine.tenants.TenantNotFound": Exit.NOT_FOUND,
    "relevo.engine.tenants.TenantNotNamed": Exit.USAGE,
    "relevo.engine.tenants.TenantExists": Exit.CONFLICT,
    "relevo.engine.tenants.OneTenantOnly": Exit.CONFLICT,
    "relevo.engine.jobs.errors.JobNotFound": Exit.NOT_FOUND,
    "relevo.engine.jobs.errors.JobHeld": Exit.CONFLICT,
    "relevo.engine.jobs.errors.KeyHeld": Exit.CONFLICT,
    "relevo.bench.errors.BenchRunning": Exit.CONFLICT,
    "relevo.bench.errors.MarkedAsProduction": Exit.CONFLICT,
    "relevo.bench.errors.ScratchTaken": Exit.CONFLICT,
    "relevo.model.errors.InvalidOption": Exit.USAGE,
    "relevo.cli.errors.ApplicationNotFound": Exit.USAGE,
    "relevo.cli.errors.EmptyDsn": Exit.USAGE,
    "relevo.cli.errors.UnreadableDsn": Exit.USAGE,
    "relevo.cli.errors.DatabaseUnreachable": Exit.UNREACHABLE,
    "relevo.cli.errors.OtherDatabase": Exit.CONFLICT,
    "relevo.cli.errors.TenancyDiffers": Exit.CONFLICT,
    "relevo.cli.errors.UnknownTenancy": Exit.USAGE,
}


def register_exit(error: type[BaseException] | str, code: Exit) -> None:
    """Say how the command ends when this error stops it.

    Args:
        error: The class, or its full name where its module should not be imported yet.
            Its subclasses end the same way unless they are registered themselves.
        code: The exit code.
    """
    _EXITS[error if isinstance(error, str) else _full_name(error)] = code


def registered_exits() -> dict[str, Exit]:
    """Answer the table: the full name of each class with its exit code."""
    return dict(_EXITS)


def exit_of(error: BaseException) -> Exit:
    """Answer the exit code of an error: its own, its nearest parent's, or 1."""
    for parent in type(error).__mro__:
        if code := _EXITS.get(_full_name(parent)):
            return code
    return Exit.ERROR


def _full_name(error: type) -> str:
    return f"{error.__module__}.{error.__qualname__}"
