"""One run of the command: what was asked for, for every command alike."""

import getpass
import importlib
import os
import socket
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from relevo.cli.declare import option
from relevo.cli.language import gettext as _
from relevo.cli.printing import Printer

if TYPE_CHECKING:
    from relevo.app import Relevo
    from relevo.cli.checkup import Checkup
    from relevo.cli.database import Database
    from relevo.db.migrate import Line

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Shell:
    """What every command is given; click hands it on with `pass_shell`.

    Attributes:
        load: Makes the application whose kinds workers run.
        lines: The lines of migrations of this installation, the engine's aside.
        checkups: What the applications add to `relevo doctor`.
        dsn: What --dsn said.
        listen_dsn: What --listen-dsn said.
        debug: Whether an error shows where it came from.
        address: The database that was found, fit to be shown.
        wrote_nothing: Whether it is sure that an interruption here leaves everything as it was.
        out: Where the command prints.
    """

    load: "Callable[[], Relevo]"
    lines: "Callable[[], Sequence[Line]]"
    checkups: "Callable[[], Sequence[Checkup]]" = tuple
    dsn: str | None = None
    listen_dsn: str | None = None
    debug: bool = False
    address: str = ""
    wrote_nothing: bool = False
    out: Printer = field(default_factory=Printer)

    @property
    def actor(self) -> str:
        """Who is at the keyboard, for what is recorded: RELEVO_ACTOR or user@host."""
        if actor := os.environ.get("RELEVO_ACTOR"):
            return actor
        try:
            user = getpass.getuser()
        except (KeyError, OSError):
            user = str(os.getuid())
        return f"{user}@{socket.gethostname()}"

    @property
    def is_database_given(self) -> bool:
        """Whether --dsn or the environment names a database; else it is an embedded one."""
        from relevo.cli.database import VARIABLES  # noqa: PLC0415 -- the same as below

        return self.dsn is not None or any(name in os.environ for name in VARIABLES)

    @contextmanager
    def database(self) -> "Generator[Database, None, None]":
        """Find the database of this run; an embedded server runs while the block does."""
        # Read when a command really needs a database, so that --help stays quick.
        from relevo.cli.database import open_database  # noqa: PLC0415

        with open_database(self.dsn, self.listen_dsn) as database:
            self.address = database.address
            yield database

    def application(self, named: str | None) -> "Relevo":
        """Answer the application whose kinds are to be run.

        Args:
            named: What --app said, as ``package.module:attribute``; None is our own.

        Raises:
            ApplicationNotFound: There is none of that name.
        """
        return self.load() if named is None else _import_application(named)


pass_shell = click.make_pass_decorator(Shell)

app_option: Final = option(
    "--app",
    "named",
    metavar="MODULE:NAME",
    envvar="RELEVO_APP",
    help="Another application whose jobs workers run; else RELEVO_APP, or relevo's own.",
)
"""Adds --app; `Shell.application` reads what it says."""


def options(
    *, database: bool = True, listen: bool = False, output: bool = True
) -> Callable[[F], F]:
    """Add the options that commands share; they fill the `Shell`.

    Args:
        database: Whether the command works on a database.
        listen: Whether it also listens.
        output: Whether it prints data; else it refuses -o json.
    """
    shared = [
        option("--debug", is_flag=True, help="Show where an error came from.", **_kept("debug")),
        option(
            "--lang",
            metavar="es|pt|en",
            help="The language of messages; else RELEVO_LANG, LC_ALL, LC_MESSAGES or LANG.",
            expose_value=False,
        ),
    ]
    if output:
        shared.append(
            option(
                "-o",
                "--output",
                type=click.Choice(["text", "json"]),
                help="How data is printed.",
                expose_value=False,
                callback=_keep_output,
            )
        )
    if listen:
        shared.append(
            option(
                "--listen-dsn",
                metavar="DSN",
                help="A direct connection for LISTEN where --dsn goes through a pooler; "
                "else RELEVO_LISTEN_DSN. An empty text means to poll only.",
                **_kept("listen_dsn"),
            )
        )
    if database:
        shared.append(
            option(
                "--dsn",
                metavar="DSN",
                help="The database; else RELEVO_DSN, DATABASE_URL, or an embedded server.",
                **_kept("dsn"),
            )
        )

    def add(function: F) -> F:
        if not output:
            function = _without_json(function)
        for each in shared:
            function = each(function)
        return function

    return add


def _without_json(function: F) -> F:
    """Refuse -o json, which may stand before the name of a command that has none."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = click.get_current_context()
        if ctx.ensure_object(Shell).out.as_json:
            raise click.UsageError(
                _("`%(command)s` has no JSON to print; leave -o json out")
                % {"command": ctx.command_path}
            )
        return function(*args, **kwargs)

    return cast("F", run)


def _kept(name: str) -> dict[str, Any]:
    """Settings of an option whose value goes to an attribute of the shell."""

    def keep(ctx: click.Context, _param: click.Parameter, value: object) -> None:
        # The same option stands before and after the command's name; the one given wins.
        if value is not None and value is not False:
            setattr(ctx.ensure_object(Shell), name, value)

    return {"expose_value": False, "callback": keep}


def _keep_output(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Shell).out.as_json = value == "json"


def _import_application(named: str) -> "Relevo":
    from relevo.app import Relevo  # noqa: PLC0415 -- --help must not import the engine
    from relevo.cli.errors import ApplicationBroken, ApplicationNotFound  # noqa: PLC0415 -- the same

    module, colon, attribute = named.partition(":")
    if not colon or not module or not attribute:
        raise ApplicationNotFound(app=named, reason=_("it has no colon"))
    if "" not in sys.path:
        # The folder at hand, as with `python -m`.
        sys.path.insert(0, "")
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise ApplicationNotFound(app=named, reason=str(error)) from error
        # Its own code failed, or lacks a library: that is not "no application".
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise ApplicationBroken(
            module=module,
            error=f"{type(error).__name__}: {error}".rstrip(": "),
            place=f"{last.filename}:{last.lineno}",
        ) from error
    found: Any = imported
    try:
        for name in attribute.split("."):
            found = getattr(found, name)
    except AttributeError as error:
        raise ApplicationNotFound(app=named, reason=str(error)) from error
    if not isinstance(found, Relevo):
        raise ApplicationNotFound(app=named, reason=_("it is something else"))
    return found
