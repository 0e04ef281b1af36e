"""A whole worker in this process: how it stops, and what it leaves behind."""

import asyncio
import threading
from datetime import timedelta

import psycopg
import pytest

from factories import history, job_row, value
from relevo import (
    Context,
    Relevo,
)
from relevo.loops.settings import ENGINE_CONNECTIONS
from workers import as_worker, drain, query, running, settings, wait_until


def test_a_graceful_stop_lets_running_jobs_end(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    began = threading.Event()

    @app.job("test.work")
    async def handler(ctx: Context) -> str:
        began.set()
        await asyncio.sleep(0.5)
        return "done"

    job = handler.enqueue(owner)
    with running(app, database):
        assert began.wait(10)

    assert job_row(owner, job.id)["result"] == "done"
    assert value(owner, "SELECT count(*) FROM relevo.workers WHERE expires_at > now()") == 0


@pytest.mark.parametrize("is_async", [True, False])
def test_what_does_not_end_within_the_grace_goes_back_uncharged(
    app: Relevo, database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    began, release = threading.Event(), threading.Event()

    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context) -> None:
            began.set()
            await asyncio.sleep(60)

    else:

        @app.job("test.work")
        def handler(ctx: Context) -> None:
            began.set()
            release.wait(20)

    job = handler.enqueue(owner)
    try:
        with running(app, database, grace=timedelta(seconds=0.2)):
            assert began.wait(10)
    finally:
        release.set()

    row, (attempt,) = job_row(owner, job.id), history(owner, job.id)
    assert (row["state"], row["attempt"], row["excused"]) == ("available", 1, 1)
    assert (attempt["outcome"], attempt["error"]) == ("released", "the worker stopped")


def test_a_stop_takes_nothing_more(app: Relevo, database: str, owner: psycopg.Connection) -> None:
    began, release = threading.Event(), threading.Event()

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        began.set()
        release.wait(20)

    first = handler.enqueue(owner)
    worker = app.worker(settings(database, concurrency=4))
    worker.start()
    assert began.wait(10)
    worker.ask_to_stop()
    wait_until(lambda: value(owner, "SELECT bool_and(stopping) FROM relevo.workers"))
    second = handler.enqueue(owner)
    release.set()

    assert worker.wait(20)
    assert job_row(owner, first.id)["state"] == "completed"
    assert job_row(owner, second.id)["attempt"] == 0


def test_a_worker_that_stopped_leaves_no_thread_and_no_connection(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("a.coroutine")
    async def coroutine(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    @app.job("a.function")
    def function(ctx: Context) -> None:
        with ctx.transaction():
            pass

    coroutine.enqueue(owner)
    function.enqueue(owner)
    drain(app, database)

    left = wait_until(
        lambda: (
            not query(
                database, "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'relevo %%'"
            )
        )
    )
    assert left
    wait_until(
        lambda: (
            not [
                thread.name for thread in threading.enumerate() if thread.name.startswith("relevo-")
            ]
        )
    )


def test_a_worker_opens_no_more_connections_than_it_documents(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """F-029. Six of the engine's own, and `connections` for each of the two sorts of handlers."""
    most = [0]

    @app.job("a.coroutine")
    async def coroutine(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await connection.execute("SELECT pg_sleep(0.02)")

    @app.job("a.function")
    def function(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("SELECT pg_sleep(0.02)")

    with owner.transaction():
        coroutine.enqueue_many(owner, [{}] * 60)
        function.enqueue_many(owner, [{}] * 60)
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'relevo %'"
    with running(app, database, concurrency=24, connections=3):

        def done() -> bool:
            most[0] = max(most[0], value(owner, count))
            return value(owner, "SELECT bool_and(state = 'completed') FROM relevo.jobs")

        wait_until(done, 30)

    assert ENGINE_CONNECTIONS < most[0] <= ENGINE_CONNECTIONS + 2 * 3


def test_a_handlers_connection_is_the_workers_role(database: str) -> None:
    assert query(as_worker(database), "SELECT current_user") == [("relevo_worker",)]
