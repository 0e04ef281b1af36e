"""A whole worker in this process: every way a handler can end, and how the worker stops."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from factories import a_job, a_worker, history, job_row, make_due, value
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
from relevo.loops.settings import ENGINE_CONNECTIONS
from workers import as_worker, drain, query, running, settings, terminate, wait_until

HOUR = timedelta(hours=1)


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app() -> Relevo:
    return Relevo()


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


# --- slots and order


def test_no_more_handlers_run_at_once_than_there_are_slots(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    most, now, gate = [0], [0], threading.Lock()

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        with gate:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with gate:
            now[0] -= 1

    with owner.transaction():
        handler.enqueue_many(owner, [{}] * 40)
    drain(app, database, concurrency=3)

    assert most[0] == 3
    assert value(owner, "SELECT count(*) FROM relevo.jobs WHERE attempt = 1") == 40


def test_two_queues_are_both_served(app: Relevo, database: str, owner: psycopg.Connection) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    jobs = [handler.with_options(queue=queue).enqueue(owner) for queue in ("one", "two", "three")]
    drain(app, database, queues=("one", "two"))

    states = [job_row(owner, job.id)["state"] for job in jobs]
    assert states == ["completed", "completed", "available"]


def test_a_notification_starts_a_job_at_once_though_the_poll_is_long(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=30)):
        for _ in range(5):
            wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"))
            job = handler.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["state"] == "completed", 5)


def test_a_worker_with_no_free_slot_wants_no_wake_up_until_it_is_idle_again(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """F-024. Red when the flag is never cleared: every enqueue of a busy system would notify."""
    began, release = threading.Event(), threading.Event()

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        began.set()
        release.wait(20)

    idle = "SELECT bool_or(idle) FROM relevo.workers"
    with running(app, database, concurrency=1):
        wait_until(lambda: value(owner, idle))
        handler.enqueue(owner)
        assert began.wait(10)
        wait_until(lambda: not value(owner, idle))
        release.set()
        wait_until(lambda: value(owner, idle))


def test_a_worker_that_stopped_well_leaves_no_session(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the row only expires: the last worker of a fleet would be listed for ever."""

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    handler.enqueue(owner)
    drain(app, database)

    sessions = "SELECT (SELECT count(*) FROM relevo.workers), count(*) FROM relevo.ended_workers"
    assert owner.execute(sessions.encode()).fetchone() == (0, 0)


def test_without_a_listener_the_poll_finds_the_job(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, listen_dsn="", poll=timedelta(seconds=0.2)):
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers") == 1)
        job = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 5)

    assert query(database, "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN relevo'") == []


def test_a_listener_that_is_cut_off_listens_again_and_misses_nothing(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the supervisor does not start the listener again, or it does not look first."""

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=30)):
        wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"))
        wait_until(lambda: terminate(database, "relevo listen"))
        job = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 8)


# --- transactions of handlers


def test_a_handlers_transaction_commits_its_rows_and_its_completion_together(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    owner.execute("CREATE TABLE public.notes (job_id bigint, seen text)")
    owner.execute("GRANT ALL ON public.notes TO relevo_worker")

    @app.job("a.coroutine")
    async def coroutine(ctx: Context) -> str:
        async with ctx.transaction() as connection:
            await connection.execute(
                "INSERT INTO notes SELECT %s, state FROM relevo.jobs WHERE id = %s",
                [ctx.job_id, ctx.job_id],
            )
        return "not kept"

    @app.job("a.function")
    def function(ctx: Context) -> None:
        with ctx.transaction() as connection:
            connection.execute("INSERT INTO notes VALUES (%s, current_user)", [ctx.job_id])

    jobs = [coroutine.enqueue(owner).id, function.enqueue(owner).id]
    drain(app, database)

    assert [job_row(owner, job)["state"] for job in jobs] == ["completed", "completed"]
    assert job_row(owner, jobs[0])["result"] is None
    assert query(database, "SELECT * FROM notes ORDER BY job_id") == [
        (jobs[0], "running"),
        (jobs[1], "relevo_worker"),
    ]


@pytest.mark.parametrize("is_async", [True, False])
def test_an_exception_inside_the_transaction_rolls_everything_back(
    app: Relevo, database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    owner.execute("CREATE TABLE public.notes (job_id bigint)")
    owner.execute("GRANT ALL ON public.notes TO relevo_worker")
    insert = "INSERT INTO notes VALUES (%s)"

    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(insert, [ctx.job_id])
                raise ZeroDivisionError

    else:

        @app.job("test.work")
        def handler(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute(insert, [ctx.job_id])
                raise ZeroDivisionError

    job = handler.enqueue(owner)
    drain(app, database)

    assert query(database, "SELECT * FROM notes") == []
    assert job_row(owner, job.id)["state"] == "available"
    assert job_row(owner, job.id)["last_error"] == "ZeroDivisionError"


def test_an_exception_after_the_transaction_does_not_undo_it(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        raise ZeroDivisionError

    job = handler.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"], history(owner, job.id)) == ("completed", 1, [])


def test_a_stale_start_keeps_nothing_of_its_transaction(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the completion inside ctx.transaction() is not fenced, or its refusal is ignored."""
    owner.execute("CREATE TABLE public.notes (attempt integer)")
    owner.execute("GRANT ALL ON public.notes TO relevo_worker")
    errors = []

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        try:
            with ctx.transaction() as connection:
                connection.execute("INSERT INTO notes VALUES (%s)", [ctx.attempt])
                if ctx.attempt == 1:
                    other = a_worker(owner)
                    owner.execute(
                        "UPDATE relevo.jobs SET attempt = 2, worker = %s WHERE id = %s",
                        [other, ctx.job_id],
                    )
        except Exception as error:
            errors.append(error)
            raise

    job = handler.enqueue(owner)
    with running(app, database):
        wait_until(lambda: errors)

    row = job_row(owner, job.id)
    assert "was given to another worker" in str(errors[0])
    assert query(database, "SELECT * FROM notes") == []
    assert (row["state"], row["attempt"]) == ("running", 2)
    assert history(owner, job.id) == []


def test_a_second_completing_transaction_is_refused(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    errors = []

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        async with ctx.transaction():
            pass
        try:
            async with ctx.transaction():
                pass
        except Exception as error:
            errors.append(str(error))
            raise

    job = handler.enqueue(owner)
    drain(app, database)

    assert "completed by an earlier ctx.transaction()" in errors[0]
    assert job_row(owner, job.id)["state"] == "completed"


def test_a_plain_connection_leaves_the_job_alone(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    owner.execute("CREATE TABLE public.notes (attempt integer, tenant text)")
    owner.execute("GRANT ALL ON public.notes TO relevo_worker")
    insert = "INSERT INTO notes VALUES (%s, current_setting('relevo.tenant'))"

    @app.job("test.work", retry=Backoff(HOUR, cap=HOUR))
    async def handler(ctx: Context) -> None:
        async with ctx.connection() as connection:
            await connection.execute(insert, [ctx.attempt])
        raise ZeroDivisionError

    job = handler.enqueue(owner)
    drain(app, database)

    assert query(database, "SELECT attempt, tenant FROM notes") == [
        (1, "00000000-0000-0000-0000-000000000001")
    ]
    assert job_row(owner, job.id)["state"] == "available"


def test_a_handler_can_enqueue_in_its_own_transaction(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.second")
    async def second(ctx: Context) -> None:
        """Nothing."""

    @app.job("test.first")
    async def first(ctx: Context) -> None:
        async with ctx.transaction() as connection:
            await second.enqueue(connection)

    first.enqueue(owner)
    drain(app, database)

    assert query(database, "SELECT kind, state FROM relevo.jobs ORDER BY id") == [
        ("test.first", "completed"),
        ("test.second", "completed"),
    ]


def test_the_context_says_what_the_job_is(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    seen = []

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        seen.append((ctx.kind, ctx.attempt, ctx.aggregate_id, ctx.actor, dict(ctx.headers)))
        seen.append(ctx.idempotency_key)
        ctx.log.info("told")

    asked = handler.with_options(aggregate_id="c-1", actor="ada", headers={"traceparent": "00"})
    job = asked.enqueue(owner)
    drain(app, database)

    assert seen[0] == ("test.work", 1, "c-1", "ada", {"traceparent": "00"})
    assert str(job.id) in seen[1]


# --- stopping


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
