"""`relevo worker` and `relevo up`: run jobs until a stop is asked for.

The first signal ends gracefully: nothing more starts and what runs may end within the
grace. The second ends the process at once; what ran is rescued when its lease is over.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from types import FrameType
from typing import Any, Final, TypeVar

import click

from relevo.app import Relevo
from relevo.cli.database import Database
from relevo.cli.declare import Whole, command, option
from relevo.cli.durations import Duration, write_duration
from relevo.cli.goodbye import say_goodbye
from relevo.cli.language import gettext as _
from relevo.cli.logs import FORMATS, log_to_stderr
from relevo.cli.processes import serve_in_processes
from relevo.cli.ready import require_ready
from relevo.cli.shell import Shell, app_option, options, pass_shell
from relevo.db.migrate import migrate
from relevo.loops.lifeline import Lifeline
from relevo.loops.settings import WorkerSettings
from relevo.loops.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_KILLED: Final = 128
"""What shells add to the number of the signal that ended a process."""

_AFTER_GRACE: Final = timedelta(seconds=60)
"""What a stop may take beside the grace before a child that has lost its parent ends itself."""

_LEAST_LEASE: Final = timedelta(seconds=1)
"""A shorter one ends with every hiccup of the network, and the jobs go to and fro."""

_LEAST_POLL: Final = timedelta(milliseconds=10)

_DEFAULTS: Final[dict[str, Any]] = {field.name: field.default for field in fields(WorkerSettings)}


def _worker_options(function: F) -> F:
    shared = [
        options(listen=True, output=False),
        option(
            "--log-format",
            type=click.Choice(FORMATS),
            default="text",
            help="How log lines are written, on stderr.",
        ),
        option(
            "--lease",
            type=Duration(least=_LEAST_LEASE),
            default=write_duration(_DEFAULTS["lease"]),
            show_default=True,
            help="How long the jobs of a silent worker stay its own.",
        ),
        option(
            "--poll",
            type=Duration(least=_LEAST_POLL),
            default=write_duration(_DEFAULTS["poll"]),
            show_default=True,
            help="How often an idle worker looks for jobs without being told.",
        ),
        option(
            "--grace",
            type=Duration(zero=True),
            default=write_duration(_DEFAULTS["grace"]),
            show_default=True,
            help="How long running jobs may go on after a stop was asked for.",
        ),
        option(
            "--concurrency",
            type=Whole(min=1),
            default=_DEFAULTS["concurrency"],
            show_default=True,
            help="How many jobs may run at once.",
        ),
        option(
            "-q",
            "--queue",
            "queues",
            multiple=True,
            metavar="NAME",
            help="A queue to serve; may be repeated. Else every queue of the application.",
        ),
        app_option,
    ]
    for each in shared:
        function = each(function)
    return function


@command("worker")
@_worker_options
@option("--drain", is_flag=True, help="Stop once nothing is due.")
@option(
    "--processes",
    type=Whole(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="In how many processes, each with slots and connections of its own.",
)
@pass_shell
def worker(
    shell: Shell, /, *, named: str | None, drain: bool, processes: int, **settings: Any
) -> None:
    """Run jobs until a stop is asked for."""
    lifeline = Lifeline.take()
    app = shell.application(named)
    with shell.database() as database:
        require_ready(database, shell.lines(), app)
        serving, log_format = _settings(database, app, drain=drain, **settings)
        log_to_stderr(log_format, None if lifeline is None else lifeline.name)
        if lifeline is not None:
            _serve_under(lifeline, app, serving)
            return
        _say_unused(shell, app, settings["queues"])
        if processes > 1:
            serve_in_processes(shell, database, serving, processes)
        else:
            _serve(shell, database, app, serving)


@command("up")
@_worker_options
@pass_shell
def up(shell: Shell, /, *, named: str | None, **settings: Any) -> None:
    """Start everything in one process: server, schema, worker."""
    app = shell.application(named)
    with shell.database() as database:
        if database.embedded is not None:
            shell.out.note(_("PostgreSQL runs in %(root)s") % {"root": database.embedded.root})
            shell.out.note(_("look inside with: psql '%(dsn)s'") % {"dsn": database.dsn})
        database.require()
        applied = migrate(database.dsn, shell.lines())
        shell.out.note(_("migrations applied now: %(count)d") % {"count": len(applied)})
        require_ready(database, shell.lines(), app)
        serving, log_format = _settings(database, app, drain=False, **settings)
        log_to_stderr(log_format)
        _say_unused(shell, app, settings["queues"])
        _serve(shell, database, app, serving)


def _settings(
    database: Database,
    app: Relevo,
    *,
    queues: tuple[str, ...],
    concurrency: int,
    grace: timedelta,
    poll: timedelta,
    lease: timedelta,
    log_format: str,
    drain: bool,
) -> tuple[WorkerSettings, str]:
    """Answer what a worker is told, and how its log lines are written."""
    serving = WorkerSettings(
        dsn=database.dsn,
        listen_dsn=database.listen_dsn,
        queues=queues or tuple(app.registry.queues()) or ("default",),
        concurrency=concurrency,
        lease=lease,
        poll=poll,
        grace=grace,
        drain=drain,
    )
    return serving, log_format


def _serve(shell: Shell, database: Database, app: Relevo, serving: WorkerSettings) -> None:
    running = app.worker(serving)
    _stop_on_signals(
        running,
        lambda: shell.out.note(
            _("stopping when the running jobs have ended; once more ends at once")
        ),
    )
    running.start()
    shell.out.note(
        _("worker %(name)s serves %(queues)s on %(address)s; stop it with Ctrl-C")
        % {
            "name": serving.name,
            "queues": ", ".join(serving.queues),
            "address": database.address,
        }
    )
    running.wait()
    say_goodbye(shell, database, serving.queues)


def _serve_under(lifeline: Lifeline, app: Relevo, serving: WorkerSettings) -> None:
    """Serve as the child of a parent, which speaks for all its children."""
    running = app.worker(replace(serving, name=lifeline.name))
    _stop_on_signals(running, lambda: None)
    lifeline.attach(running.ask_to_stop, (serving.grace + _AFTER_GRACE).total_seconds())
    running.start()
    lifeline.say_ready()
    running.wait()


def _say_unused(shell: Shell, app: Relevo, queues: Sequence[str]) -> None:
    """Note queues that look mistyped; no refusal, for an enqueue may name another queue."""
    used = app.registry.queues()
    for queue in sorted(set(queues) - set(used)):
        shell.out.note(
            _("no kind of this application uses the queue %(queue)s; its queues are: %(queues)s")
            % {"queue": queue, "queues": ", ".join(used) or "-"}
        )


def _stop_on_signals(running: Worker, say: Callable[[], None]) -> None:
    asked = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(_KILLED + number)
        asked = True
        running.ask_to_stop()
        say()

    for each in SIGNALS:
        signal.signal(each, stop)
