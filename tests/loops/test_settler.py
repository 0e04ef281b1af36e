"""Answers reach their rows though a batch is refused, and never hold each other up."""

import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from factories import history, job_row, value
from relevo import Context, Fail, Outage, Relevo, Retry, Snooze
from workers import drain, running, terminate, wait_until


@pytest.mark.parametrize("answer", [Retry(timedelta.max), Snooze(timedelta.max)], ids=str)
def test_an_answer_that_no_row_can_hold_is_stored_without_what_was_refused(
    database: str, owner: psycopg.Connection, answer: object
) -> None:
    """Red when one refused value makes the whole batch wait, or the loop fail for ever."""
    app = Relevo()

    @app.job("test.bad")
    async def bad(ctx: Context) -> object:
        return answer

    @app.job("test.good")
    async def good(ctx: Context) -> None:
        """Nothing."""

    with owner.transaction():
        first = bad.enqueue(owner)
        others = good.enqueue_many(owner, [{}] * 20)
    with running(app, database):
        wait_until(lambda: job_row(owner, first.id)["last_error"])
        for other in others:
            wait_until(lambda other=other: job_row(owner, other.id)["state"] == "completed")

    row = job_row(owner, first.id)
    assert row["attempt"] == 1
    assert "could not be stored" in row["last_error"]


@pytest.mark.parametrize(
    ("outcome", "values"),
    [(Retry, (5,)), (Snooze, ("later",)), (Outage, ("x", None)), (Fail, (ValueError("x"),))],
)
def test_an_outcome_with_a_value_of_another_type_is_an_error_of_the_handler(
    database: str, owner: psycopg.Connection, outcome: Callable[..., object], values: tuple
) -> None:
    app = Relevo()

    @app.job("test.bad")
    async def bad(ctx: Context) -> object:
        return outcome(*values)

    job = bad.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert row["last_error"].startswith("InvalidOption: ")


def test_a_row_that_refuses_its_end_for_good_does_not_hold_up_the_others(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when the settler tries a refused answer for ever: nothing behind it is written."""
    owner.execute("ALTER TABLE relevo.jobs ADD CHECK (kind <> 'test.stuck' OR live) NOT VALID")
    app = Relevo()

    @app.job("test.stuck")
    async def stuck(ctx: Context) -> None:
        """Nothing."""

    @app.job("test.good")
    async def good(ctx: Context) -> None:
        """Nothing."""

    held = stuck.enqueue(owner)
    with running(app, database, poll=timedelta(seconds=0.2)):
        wait_until(lambda: job_row(owner, held.id)["attempt"])
        for _ in range(3):
            job = good.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["state"] == "completed", 5)


def test_a_row_that_somebody_has_locked_does_not_hold_up_the_others(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when the settle waits for the row: a transaction left open would stop the worker."""
    app, go = Relevo(), threading.Event()

    @app.job("test.locked")
    def locked(ctx: Context) -> str:
        go.wait(20)
        return "kept"

    @app.job("test.good")
    async def good(ctx: Context) -> None:
        """Nothing."""

    held = locked.enqueue(owner)
    with running(app, database), psycopg.connect(database) as holder:
        wait_until(lambda: job_row(owner, held.id)["attempt"])
        holder.execute("SELECT FROM relevo.jobs WHERE id = %s FOR UPDATE", [held.id])
        go.set()
        with owner.transaction():
            good.enqueue_many(owner, [{}] * 50)
        done = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
        wait_until(lambda: value(owner, done) == 50, 10)
        holder.rollback()
        wait_until(lambda: value(owner, done) == 51, 10)

    assert job_row(owner, held.id)["result"] == "kept"


def test_a_batch_that_met_a_broken_connection_is_written_though_nothing_follows(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when only new answers make the settler try again."""
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> str:
        if ctx.attempt == 1:
            terminate(database, "relevo settle")
        return "done"

    with running(app, database):
        # The settler's connection exists only once something was written.
        warm = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, warm.id)["state"] == "completed")
        job = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 5)

    assert job_row(owner, job.id)["attempt"] == 1


def test_an_outage_pauses_the_queue_and_spends_no_attempt(
    database: str, owner: psycopg.Connection
) -> None:
    app = Relevo()
    starts: list[int] = []

    @app.job("test.mail", max_attempts=1)
    async def mail(ctx: Context) -> object:
        starts.append(ctx.attempt)
        return Outage("mail server down", timedelta(hours=1)) if len(starts) == 1 else None

    job = mail.enqueue(owner)
    with running(app, database, poll=timedelta(milliseconds=50)):
        wait_until(lambda: history(owner, job.id))
        paused = value(owner, "SELECT reason FROM relevo.pauses")
        seen = list(starts)
        owner.execute("UPDATE relevo.pauses SET paused_until = now()")
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed")

    assert paused == "mail server down"
    assert seen == [1]
    assert starts == [1, 2]
    assert job_row(owner, job.id)["excused"] == 1
