"""Whatever a handler does to the loop that it shares, the worker goes on."""

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest

from factories import history, job_row
from relevo import Backoff, Context, Relevo, Retry
from workers import drain, running, wait_until

MINUTE = timedelta(minutes=1)


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


@dataclass(frozen=True, slots=True)
class Spoiled(Backoff):
    """A rule of the application's own that answers this, or raises it."""

    answer: Any = None

    def delay(self, failures: int, random: Random | None = None) -> timedelta:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def _end(how: str) -> object:
    if how == "cancelled":
        raise asyncio.CancelledError
    if how == "raises":
        msg = "the handler's own"
        raise ValueError(msg)
    return Retry()


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("how", "answer", "error"),
    [
        ("raises", RuntimeError("no rule today"), "RuntimeError: no rule today"),
        ("raises", 5, "InvalidOption: delay cannot be 5: "),
        ("answers", SystemExit(3), "SystemExit: 3"),
        ("cancelled", RuntimeError("no rule today"), "RuntimeError: no rule today"),
    ],
)
def test_a_start_is_settled_though_the_rule_of_its_kind_fails(
    database: str,
    owner: psycopg.Connection,
    how: str,
    answer: object,
    error: str,
    *,
    is_async: bool,
) -> None:
    """Red when a start whose end cannot be decided is forgotten: the drain would never end."""
    app, rule = Relevo(), Spoiled(MINUTE, answer=answer)
    if is_async:

        @app.job("test.work", retry=rule)
        async def handler(ctx: Context) -> object:
            return _end(how)

    else:

        @app.job("test.work", retry=rule)
        def handler(ctx: Context) -> object:
            return _end(how)

    again = handler.enqueue(owner)
    spent = handler.with_options(max_attempts=1).enqueue(owner)

    drain(app, database, concurrency=1)

    row, (attempt,) = job_row(owner, again.id), history(owner, again.id)
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert row["last_error"].startswith(error)
    assert attempt["error"].startswith(error)
    assert "handlers.py" in attempt["error"]
    waits = attempt["retry_at"] - attempt["finished_at"]
    assert waits == pytest.approx(2 * MINUTE, abs=timedelta(seconds=1))
    assert job_row(owner, spent.id)["state"] == "failed"
    assert job_row(owner, spent.id)["last_error"].startswith(error)


def test_time_outs_are_seen_though_the_rule_of_a_kind_fails(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when the thread that looks for time-outs dies of the first."""
    app, rule = Relevo(), Spoiled(MINUTE, answer=RuntimeError("no rule today"))

    @app.job("test.hang", retry=rule, timeout=timedelta(milliseconds=200))
    async def hang(ctx: Context) -> None:
        await asyncio.sleep(60)

    with running(app, database, concurrency=1):
        for _ in range(2):
            job = hang.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["last_error"])

    assert job_row(owner, job.id)["last_error"] == "RuntimeError: no rule today"
