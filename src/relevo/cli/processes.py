"""`relevo worker --processes`: the parent of several workers, and what it says to people.

Each child is this same command with the same arguments, started anew: nothing of the
parent's memory, threads or connections goes to it.
"""

import sys

import click

from relevo.cli.database import Database
from relevo.cli.goodbye import say_goodbye
from relevo.cli.language import gettext as _
from relevo.cli.language import say_error
from relevo.cli.shell import Shell
from relevo.errors import RelevoError
from relevo.loops.processes import Processes
from relevo.loops.settings import WorkerSettings


class ProcessesFailed(RelevoError):
    """The worker's processes end as soon as they start."""

    template = (
        "the worker's processes end as soon as they start, the last one with exit code "
        "%(code)s; each has said above why: correct it, and start the worker again"
    )


def serve_in_processes(
    shell: Shell, database: Database, serving: WorkerSettings, number: int
) -> None:
    """Run a number of workers until a stop is asked for, or until all have drained.

    Args:
        shell: This run of the command.
        database: Where the jobs are; the caller has looked that workers may deliver from it.
        serving: What each of the workers is told, this process's own name in it.
        number: How many workers.
    """

    def say_ready() -> None:
        shell.out.note(
            _(
                "worker %(name)s serves %(queues)s on %(address)s in %(number)d processes; "
                "stop it with Ctrl-C"
            )
            % {
                "name": serving.name,
                "queues": ", ".join(serving.queues),
                "address": database.address,
                "number": number,
            }
        )

    def say_stop() -> None:
        shell.out.note(_("stopping when the running jobs have ended; once more ends at once"))

    ending = Processes(
        _same_command(),
        [f"{serving.name}-{place}" for place in range(1, number + 1)],
        until_done=serving.drain,
        on_ready=say_ready,
        on_stop=say_stop,
    ).run()
    if ending.gave_up:
        error = ProcessesFailed(code=ending.code)
        shell.out.note(f"{_('Error: ')}{say_error(error)}")
    elif not ending.at_once:
        say_goodbye(shell, database, serving.queues)
    if ending.code:
        click.get_current_context().exit(ending.code)


def _same_command() -> list[str]:
    """Answer how this process was started: interpreter, its options, program and arguments."""
    program, *arguments = sys.orig_argv
    return [sys.executable or program, *arguments]
