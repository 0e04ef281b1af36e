"""`relevo worker` and `relevo up`: run jobs until a stop is asked for.

The first signal ends gracefully: nothing more starts and what runs may end within the
grace. The second ends the process at once; what ran is rescued when its lease is over.
"""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import timedelta
from types import FrameType
from typing import Any, Final, TypeVar

import click
import psycopg

from relevo.api import perform
from relevo.app import Relevo
from relevo.cli.database import Database
from relevo.cli.declare import command, option
from relevo.cli.durations import Duration, write_duration
from relevo.cli.language import gettext as _
from relevo.cli.logs import FORMATS, log_to_stderr
from relevo.cli.ready import require_ready
from relevo.cli.shell import Shell, options, pass_shell
from relevo.cli.waiting import count_by_queue, list_pauses, list_waiting, say_waiting
from relevo.db.dsn import WORKER_ROLE
from relevo.db.migrate import migrate
from relevo.errors import RelevoError
from relevo.loops.settings import WorkerSettings
from relevo.loops.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_KILLED: Final = 128
"""What shells add to the number of the signal that ended a process."""

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
            type=Duration(),
            default=write_duration(_DEFAULTS["lease"]),
            show_default=True,
            help="How long the jobs of a silent worker stay its own.",
        ),
        option(
            "--poll",
            type=Duration(),
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
            type=click.IntRange(min=1),
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
        option(
            "--app",
            "named",
            metavar="MODULE:NAME",
            envvar="RELEVO_APP",
            help="Another application whose jobs to run; else RELEVO_APP, or relevo's own.",
        ),
    ]
    for each in shared:
        function = each(function)
    return function


@command("worker")
@_worker_options
@option("--drain", is_flag=True, help="Stop once nothing is due.")
@pass_shell
def worker(shell: Shell, /, *, named: str | None, drain: bool, **settings: Any) -> None:
    """Run jobs until a stop is asked for."""
    app = shell.application(named)
    with shell.database() as database:
        require_ready(database, shell.lines(), app)
        _serve(shell, database, app, drain=drain, **settings)


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
        _serve(shell, database, app, drain=False, **settings)


def _serve(
    shell: Shell,
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
) -> None:
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
    log_to_stderr(log_format)
    for queue in set(queues) - set(app.registry.queues()):
        shell.out.note(_("no kind of this application uses the queue %(queue)s") % {"queue": queue})
    running = app.worker(serving)
    _stop_on_signals(running, shell)
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
    _say_goodbye(shell, database, serving.queues)


def _say_goodbye(shell: Shell, database: Database, queues: Sequence[str]) -> None:
    """Say in one line what is left in the queues, and which of them rest."""
    try:
        with database.connect(WORKER_ROLE) as connection:
            counts = count_by_queue(perform(connection, list_waiting()))
            pauses = perform(connection, list_pauses())
    except (RelevoError, psycopg.Error):
        # It has ended well; that the database has gone meanwhile is no news of its own.
        return
    left = say_waiting(
        {queue: count for queue, count in counts.items() if queue in queues},
        {queue: pause for queue, pause in pauses.items() if queue in queues},
    )
    shell.out.note(_("stopped; still waiting: %(left)s") % {"left": left or "0"})


def _stop_on_signals(running: Worker, shell: Shell) -> None:
    asked = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(_KILLED + number)
        asked = True
        running.ask_to_stop()
        shell.out.note(_("stopping when the running jobs have ended; once more ends at once"))

    for each in SIGNALS:
        signal.signal(each, stop)
