"""The last line of a worker that stops well: what it leaves behind."""

from collections.abc import Sequence

import psycopg

from relevo.api import perform
from relevo.cli.database import Database
from relevo.cli.language import gettext as _
from relevo.cli.shell import Shell
from relevo.cli.waiting import count_by_queue, list_resting, list_waiting, say_waiting
from relevo.db.dsn import WORKER_ROLE
from relevo.errors import RelevoError


def say_goodbye(shell: Shell, database: Database, queues: Sequence[str]) -> None:
    """Say in one line what is left in the queues, and which of them rest."""
    try:
        with database.connect(WORKER_ROLE) as connection:
            counts = count_by_queue(perform(connection, list_waiting()))
            pauses = perform(connection, list_resting())
    except (RelevoError, psycopg.Error):
        # It has ended well; that the database has gone meanwhile is no news of its own.
        return
    left = say_waiting(
        {queue: count for queue, count in counts.items() if queue in queues},
        {queue: pause for queue, pause in pauses.items() if queue in queues},
    )
    shell.out.note(_("stopped; still waiting: %(left)s") % {"left": left or "0"})
