"""Kill a migration before and after every statement that it runs, and let the next one finish.

Run as a program of its own, so that it may fork: ``kill_migrator.py DSN FOLDER PACKAGE``.
Writes how many points there were and at which the second run did not make the same database.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count

import psycopg
from migrating import shape

from relevo.db.migrate import Line, Patience, migrate

EXECUTE = psycopg.Connection.execute


def counted(when: str, last: int) -> Callable[..., object]:
    """An execute that ends this process before or after its statement number `last`."""
    seen = 0

    def execute(connection: psycopg.Connection, *args: object, **kwargs: object) -> object:
        nonlocal seen
        seen += 1
        if (when, seen) == ("before", last):
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = EXECUTE(connection, *args, **kwargs)
        if (when, seen) == ("after", last):
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor

    return execute


def killed(dsn: str, line: Line, when: str, last: int) -> bool:
    """Whether a migration in a child was killed at that point; False when it ended before."""
    child = os.fork()
    if not child:
        psycopg.Connection.execute = counted(when, last)
        migrate(dsn, [line], environment="here")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(dsn: str, folder: str, package: str) -> None:
    sys.path.append(folder)
    line = Line("shop", package)
    points, broken, whole = 0, [], None
    for when in ("before", "after"):
        for last in count(1):
            was_killed = killed(dsn, line, when, last)
            migrate(dsn, [line], environment="here", patience=Patience(turn_for=30))
            found = shape(dsn)
            whole = whole or found
            if found != whole:
                broken.append([when, last])
            with psycopg.connect(dsn) as connection:
                connection.execute("DROP SCHEMA relevo, shop CASCADE")
            if not was_killed:
                break
            points += 1
    sys.stdout.write(json.dumps({"points": points, "broken": broken}))


if __name__ == "__main__":
    main(*sys.argv[1:])
