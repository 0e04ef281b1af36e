"""The `relevo` command: put together from its parts, and how it ends.

The composition root calls `build_cli`. An error of ours, of the database or of the
arguments is one sentence on stderr and a fixed exit code; a traceback is for --debug.
"""

import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from relevo.cli.declare import Group, Late, Option
from relevo.cli.errors import SystemRefused
from relevo.cli.exits import Exit, exit_of
from relevo.cli.language import gettext as _
from relevo.cli.language import say_error, speak, unknown_language
from relevo.cli.printing import clean
from relevo.cli.shell import Shell, options
from relevo.errors import RelevoError
from relevo.version import VERSION

if TYPE_CHECKING:
    from relevo.app import Relevo
    from relevo.cli.checkup import Checkup
    from relevo.db.migrate import Line

COMMANDS: Final = (
    Late("up", "relevo.cli.worker:up", "Start everything in one process: server, schema, worker."),
    Late("worker", "relevo.cli.worker:worker", "Run jobs until a stop is asked for."),
    Late("jobs", "relevo.cli.jobs:jobs", "Look at jobs, and try them again."),
    Late("top", "relevo.cli.top:top", "Watch queues and workers live."),
    Late("pause", "relevo.cli.pauses:pause", "Start no more jobs of a queue, a kind or a tenant."),
    Late("resume", "relevo.cli.pauses:resume", "Let jobs of something paused start again."),
    Late("drain", "relevo.cli.drain:drain", "Pause something, and wait until nothing of it runs."),
    Late("pauses", "relevo.cli.pauses:pauses", "List what is paused, until when and why."),
    Late("archive", "relevo.cli.archive:archive", "Keep finished jobs when their time is over."),
    Late("limits", "relevo.cli.limits:limits", "Say how much may run at once or start."),
    Late("tenants", "relevo.cli.tenants:tenants", "Add and list the tenants of an installation."),
    Late("db", "relevo.cli.db:db", "Prepare the database and say how it stands."),
    Late("bench", "relevo.cli.bench:bench", "Measure this database beside a raw loop."),
    Late("doctor", "relevo.cli.doctor.command:doctor", "Check everything that delivery rests on."),
)


class Root(Group):
    """The command itself: chooses the language, and turns errors into exit codes."""

    def __init__(
        self, *args: Any, make_shell: Callable[[], Shell], catalogues: Sequence[str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._make_shell = make_shell
        self._catalogues = catalogues

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 -- click's own signature
        windows_expand_args: bool = True,  # noqa: ARG002, FBT001, FBT002 -- the same
        **extra: Any,
    ) -> Any:
        """Run the command and exit."""
        arguments = sys.argv[1:] if args is None else list(args)
        speak(arguments, os.environ, self._catalogues)
        _forgive_encodings()
        if unknown := unknown_language(arguments):
            text = _("relevo does not speak %(language)s, only es, pt and en")
            print(clean(text % {"language": unknown}), file=sys.stderr)
        shell = self._make_shell()
        try:
            answer = super().main(
                arguments, prog_name, complete_var, standalone_mode=False, obj=shell, **extra
            )
            code = answer if isinstance(answer, int) else Exit.OK
            # A full disk shows when the last of the output is written, not before.
            sys.stdout.flush()
        except Exception as error:  # noqa: BLE001 -- every error ends with a sentence and a code
            code = _end(error, shell)
        if standalone_mode:
            sys.exit(int(code))
        return code


def build_cli(
    *,
    app: "Callable[[], Relevo]",
    lines: "Callable[[], Sequence[Line]]",
    commands: Sequence[Late | click.Command] = (),
    catalogues: Sequence[str] = (),
    checkups: "Callable[[], Sequence[Checkup]]" = tuple,
) -> click.Group:
    """Put the command together.

    Args:
        app: Makes the application whose kinds workers run, when one is needed.
        lines: Answers the lines of migrations of the applications, when they are needed.
        commands: Commands of the applications.
        catalogues: The packages whose ``locale`` folders hold the applications' texts.
        checkups: Answers what `relevo doctor` is to look at of the applications' own.
    """
    late = [*COMMANDS, *(each for each in commands if isinstance(each, Late))]
    root = Root(
        "relevo",
        late=late,
        make_shell=lambda: Shell(app, lines, checkups),
        catalogues=catalogues,
        # Every command below has these too.
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Work that must happen later, once, and in full, kept in your PostgreSQL.",
    )
    for each in commands:
        if isinstance(each, click.Command):
            root.add_command(each)
    options(listen=True)(root)
    said = "Show the version and exit."
    click.version_option(VERSION, message="relevo %(version)s", cls=Option, help=said)(root)
    return root


def _end(error: Exception, shell: Shell) -> Exit | int:
    """Say an error on stderr; answer the exit code."""
    if isinstance(error, click.exceptions.Abort) or _is_of_an_interruption(error):
        if shell.wrote_nothing:
            print(_("Interrupted: nothing was written"), file=sys.stderr)
        return Exit.INTERRUPTED
    if shell.debug and not isinstance(error, click.ClickException):
        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # The reader of our output has left; Python must not complain when it flushes.
        sys.stdout = io.StringIO()
        return Exit.ERROR
    if not isinstance(error, RelevoError):
        from relevo.cli.refusals import ours  # noqa: PLC0415 -- imports the driver

        said = ours(error, shell.address)
        if said is None:
            if not isinstance(error, OSError):
                raise error
            # What could not be written must not be tried again when Python ends.
            sys.stdout = io.StringIO()
            said = SystemRefused(reason=str(error))
        error = said
    print(clean(f"{_('Error: ')}{say_error(error)}"), file=sys.stderr)
    return exit_of(error)


def _is_of_an_interruption(error: BaseException) -> bool:
    """Say whether it came up while an interruption unwound what had been begun.

    A connection that is interrupted in mid-statement refuses whatever is asked of it then.
    """
    behind = error.__context__
    return behind is not None and (
        isinstance(behind, KeyboardInterrupt) or _is_of_an_interruption(behind)
    )


def _forgive_encodings() -> None:
    """Write what the terminal's encoding lacks as a code, instead of failing half-way."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Somebody closed it before we began; what is said there is for nobody.
            setattr(sys, name, io.StringIO())
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
