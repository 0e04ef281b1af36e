"""Whatever a handler does to the loop that it shares, the worker goes on."""

import asyncio
import sys

import psycopg
import pytest

from factories import job_row
from relevo import Context, Relevo
from workers import running, wait_until


async def _leave() -> None:
    sys.exit(3)


@pytest.mark.parametrize("harm", ["stop", "exit"])
def test_a_handler_that_ends_the_loop_ends_nothing_else(
    database: str, owner: psycopg.Connection, harm: str
) -> None:
    """Red when the loop is run once: coroutines would be claimed and never run."""
    app = Relevo()

    @app.job("test.harm")
    async def harmful(ctx: Context) -> None:
        if harm == "stop":
            asyncio.get_running_loop().stop()
        else:
            ctx.log.info("%s", asyncio.create_task(_leave()))
        await asyncio.sleep(0.1)

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        await asyncio.sleep(0.01)

    with running(app, database):
        first = harmful.enqueue(owner)
        wait_until(lambda: job_row(owner, first.id)["state"] == "completed")
        second = work.enqueue(owner)
        wait_until(lambda: job_row(owner, second.id)["state"] == "completed")


@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_whose_text_raises_costs_no_slot(
    database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    """Red when only ordinary errors of __str__ are caught: the slot would be taken for ever."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise asyncio.CancelledError

    app = Relevo()
    if is_async:

        @app.job("test.work", max_attempts=1)
        async def handler(ctx: Context) -> None:
            raise Broken

    else:

        @app.job("test.work", max_attempts=1)
        def handler(ctx: Context) -> None:
            raise Broken

    with running(app, database, concurrency=1):
        for _ in range(2):
            job = handler.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["state"] == "failed")
            assert "could not be read" in job_row(owner, job.id)["last_error"]
