"""A whole worker in this process: what a handler writes commits with its completion."""

from datetime import timedelta

import psycopg
import pytest

from factories import a_worker, history, job_row
from relevo import (
    Backoff,
    Context,
    Relevo,
)
from workers import drain, query, running, wait_until

HOUR = timedelta(hours=1)


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
