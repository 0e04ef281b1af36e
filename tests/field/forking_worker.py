"""Fork under a worker's open connections: forking_worker.py DSN. Prints what came of it.

A handler forks while it has a connection in use, and both use theirs; then the process
forks twice as a pre-fork server does, each child serves for itself, and all go on.
"""

import logging
import os
import sys
import time
from datetime import timedelta
from typing import Any

import psycopg

from relevo import Context, Relevo, WorkerSettings

app = Relevo()

EFFECT = "INSERT INTO public.effects (job_id, attempt, note, pid) VALUES (%s, 1, %s, %s)"
ENGINE = """
SELECT array_agg(pid ORDER BY pid)
FROM pg_stat_activity
WHERE application_name ~ '^relevo (claim|settle|heartbeat|listen|handlers) parent'
"""


def write(ctx: Context, note: str) -> None:
    with ctx.connection() as connection:
        connection.execute(EFFECT, [ctx.job_id, note, connection.info.backend_pid])


@app.job("fork.handler")
def forks(ctx: Context) -> str:
    write(ctx, "before")
    with ctx.connection() as connection:
        if not (child := os.fork()):
            write(ctx, "child")
            # As multiprocessing ends its children, and nothing else may leave a handler.
            os._exit(0)
        os.waitpid(child, 0)
        connection.execute("SELECT 1")
    write(ctx, "parent")
    return "done"


@app.job("fork.note", queue="notes")
def note(ctx: Context) -> None:
    write(ctx, "note")


def settings(dsn: str, name: str, **changes: object) -> WorkerSettings:
    short = timedelta(seconds=0.2)
    return WorkerSettings(dsn, name=name, queues=("default", "notes"), poll=short, **changes)  # type: ignore[arg-type]


def ask(dsn: str, query: str) -> Any:
    """Ask on a connection of its own, so that none of the program's is open at a fork."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        return owner.execute(query.encode()).fetchone()[0]  # type: ignore[index]


def enqueue(dsn: str, kind: Any) -> None:
    with psycopg.connect(dsn, autocommit=True) as owner:
        kind.enqueue(owner)


def wait_until_done(dsn: str) -> None:
    while not ask(dsn, "SELECT bool_and(state = 'completed') FROM relevo.jobs"):
        time.sleep(0.05)


def serve_alone(dsn: str, name: str) -> None:
    enqueue(dsn, note)
    app.worker(settings(dsn, name, drain=True)).run()


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    dsn = sys.argv[1]
    worker = app.worker(settings(dsn, "parent"))
    worker.start()
    enqueue(dsn, forks)
    wait_until_done(dsn)
    before = ask(dsn, ENGINE)
    for number in (1, 2):
        if not (child := os.fork()):
            serve_alone(dsn, f"child-{number}")
            # It ends as programs do: what it inherited is collected, and must say nothing.
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    enqueue(dsn, note)
    wait_until_done(dsn)
    after = ask(dsn, ENGINE)
    worker.ask_to_stop()
    assert worker.wait(30)
    sys.stdout.write("same connections\n" if before == after else f"{before} {after}\n")


if __name__ == "__main__":
    main()
