"""A whole worker in this process: every way a handler can end."""

import asyncio
import threading
from datetime import timedelta

import psycopg
import pytest

from factories import a_job, history, job_row, make_due, value
from relevo import (
    DELIVERY,
    STANDARD,
    Backoff,
    Cancel,
    Context,
    Fail,
    Outage,
    PermanentError,
    Relevo,
    Retry,
    Snooze,
)
from workers import drain, query, running, wait_until

HOUR = timedelta(hours=1)


def test_a_coroutine_and_a_plain_function_both_run_and_their_results_are_kept(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("a.coroutine")
    async def coroutine(ctx: Context, number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    @app.job("a.function")
    def function(ctx: Context, number: int) -> dict[str, object]:
        return {"thread": threading.current_thread().name, "attempt": ctx.attempt}

    first, second = coroutine.enqueue(owner, 41), function.enqueue(owner, number=1)
    drain(app, database)

    assert job_row(owner, first.id)["result"] == 42
    result = job_row(owner, second.id)["result"]
    assert result["attempt"] == 1
    assert result["thread"].startswith("relevo-handler-")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Retry(HOUR, "busy"), ("available", "retried", "busy")),
        (Snooze(HOUR, "early"), ("available", "snoozed", "early")),
        (Fail("never"), ("failed", "failed", "never")),
        (Cancel("unwanted"), ("cancelled", "cancelled", "unwanted")),
        (Outage("down", HOUR), ("available", "released", "down")),
    ],
    ids=lambda part: type(part).__name__,
)
def test_an_outcome_decides_what_becomes_of_the_job(
    app: Relevo, database: str, owner: psycopg.Connection, answer: object, expected: tuple[str, ...]
) -> None:
    state, outcome, error = expected

    @app.job("test.work")
    async def handler(ctx: Context) -> object:
        return answer

    job = handler.enqueue(owner)
    drain(app, database)

    row, (attempt,) = job_row(owner, job.id), history(owner, job.id)
    assert (row["state"], row["last_error"]) == (state, error)
    assert attempt["outcome"] == outcome


@pytest.mark.parametrize("is_async", [True, False])
def test_an_exception_is_a_retry_and_a_permanent_one_the_end(
    app: Relevo, database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    class Gone(PermanentError):
        """Nobody there."""

    def fails(permanent: bool) -> None:  # noqa: FBT001 -- a payload has names
        raise Gone("left") if permanent else ValueError("for now")

    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context, *, permanent: bool) -> None:
            fails(permanent)

    else:

        @app.job("test.work")
        def handler(ctx: Context, *, permanent: bool) -> None:
            fails(permanent)

    passing = handler.enqueue(owner, permanent=False)
    final = handler.enqueue(owner, permanent=True)
    drain(app, database)

    assert job_row(owner, passing.id)["state"] == "available"
    assert job_row(owner, passing.id)["last_error"] == "ValueError: for now"
    assert "in fails" in history(owner, passing.id)[0]["error"]
    assert job_row(owner, final.id)["state"] == "failed"
    assert job_row(owner, final.id)["last_error"] == "Gone: left"


@pytest.mark.parametrize(
    "error",
    [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [True, False])
def test_an_exception_outside_exception_ends_one_start_and_not_the_worker(
    app: Relevo,
    database: str,
    owner: psycopg.Connection,
    error: BaseException,
    *,
    is_async: bool,
) -> None:
    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context) -> None:
            raise error

    else:

        @app.job("test.work")
        def handler(ctx: Context) -> None:
            raise error

    @app.job("test.next")
    async def next_one(ctx: Context) -> None:
        """Nothing."""

    job = handler.enqueue(owner)
    with running(app, database):
        wait_until(lambda: job_row(owner, job.id)["last_error"])
        after = next_one.enqueue(owner)
        wait_until(lambda: job_row(owner, after.id)["state"] == "completed")

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"]) == ("available", 1)


def test_a_function_that_answers_an_awaitable_is_not_taken_for_a_success(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """A decorator that hides a coroutine function must not complete jobs that never ran."""

    async def inner() -> None:
        """Never awaited."""

    @app.job("test.work")
    def hidden(ctx: Context) -> object:
        return inner()

    job = hidden.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert row["state"] != "completed"
    assert "awaited" in row["last_error"]


@pytest.mark.parametrize(
    ("retry", "waits"),
    [(DELIVERY, [20, 40, 80, 160, 300]), (STANDARD, [120, 240, 480, 960, 1920])],
    ids=["delivery", "standard"],
)
@pytest.mark.core
def test_a_failing_job_waits_by_its_preset_and_ends_failed_with_its_last_error(
    app: Relevo, database: str, owner: psycopg.Connection, retry: Backoff, waits: list[int]
) -> None:
    @app.job("test.work", retry=retry)
    async def handler(ctx: Context) -> None:
        msg = f"start {ctx.attempt}"
        raise ConnectionError(msg)

    job = handler.enqueue(owner)
    seen = []
    with running(app, database, poll=timedelta(milliseconds=50)):
        for start in range(1, 7):
            make_due(owner, job.id)
            attempts = wait_until(
                lambda start=start: len(found := history(owner, job.id)) == start and found
            )
            last = attempts[-1]
            if last["retry_at"] is not None:
                seen.append((last["retry_at"] - last["finished_at"]).total_seconds())

    row = job_row(owner, job.id)
    assert seen == pytest.approx(waits, abs=0.5)
    assert (row["state"], row["attempt"]) == ("failed", 6)
    assert row["last_error"] == "ConnectionError: start 6"
    assert [a["outcome"] for a in history(owner, job.id)] == ["retried"] * 5 + ["failed"]


def test_a_coroutine_that_takes_too_long_is_cancelled_and_retried(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    ended = threading.Event()

    @app.job("test.work", timeout=timedelta(seconds=0.3))
    async def handler(ctx: Context) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    job = handler.enqueue(owner)
    with running(app, database):
        wait_until(lambda: job_row(owner, job.id)["last_error"])
        assert ended.wait(5)

    row = job_row(owner, job.id)
    assert (row["state"], row["last_error"]) == ("available", "timed out after 0.3 s")


def test_a_function_that_takes_too_long_is_recorded_and_keeps_its_slot_until_it_ends(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    release = threading.Event()

    @app.job("test.hang", timeout=timedelta(seconds=0.3))
    def hang(ctx: Context) -> str:
        release.wait(20)
        return "too late"

    @app.job("test.next")
    def next_one(ctx: Context) -> None:
        """Nothing."""

    job = hang.enqueue(owner)
    try:
        with running(app, database, concurrency=1):
            wait_until(lambda: job_row(owner, job.id)["last_error"])
            after = next_one.enqueue(owner)
            seen = query(database, "SELECT pg_sleep(0.3), state FROM relevo.jobs ORDER BY id")
            release.set()
            wait_until(lambda: job_row(owner, after.id)["state"] == "completed")
    finally:
        release.set()

    row = job_row(owner, job.id)
    assert [state for _, state in seen] == ["available", "available"]
    assert (row["state"], row["result"]) == ("available", None)
    assert row["last_error"] == "timed out after 0.3 s"


def test_jobs_of_kinds_that_nobody_knows_are_left_alone_and_put_off(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    unknown = a_job(owner, kind="nobody.knows")
    known = handler.enqueue(owner)
    with running(app, database):
        wait_until(lambda: value(owner, "SELECT max(available_at) > now() FROM relevo.jobs"))
        wait_until(lambda: job_row(owner, known.id)["state"] == "completed")

    row = job_row(owner, unknown)
    assert (row["state"], row["attempt"], row["excused"]) == ("available", 0, 0)
