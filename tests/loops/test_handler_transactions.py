"""What a handler may do to its transaction, and what may happen to the connection beneath."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from factories import job_row, value
from relevo import Context, Relevo
from workers import drain, query, running, terminate, wait_until

INSERT = "INSERT INTO public.notes VALUES (%s)"


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE public.notes (job_id bigint)")
        connection.execute("GRANT ALL ON public.notes TO relevo_worker")
        yield connection


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_cannot_commit_its_rows_without_the_end_of_its_job(
    database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    """Red when the pool lends its connection as it is: every start would leave the rows."""
    app = Relevo()

    if is_async:

        @app.job("test.work", max_attempts=1)
        async def handler(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(INSERT, [ctx.job_id])
                await connection.commit()

    else:

        @app.job("test.work", max_attempts=1)
        def handler(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute(INSERT, [ctx.job_id])
                connection.commit()

    job = handler.enqueue(owner)
    drain(app, database)

    assert query(database, "SELECT * FROM notes") == []
    assert job_row(owner, job.id)["state"] == "failed"
    assert "commit() forbidden" in job_row(owner, job.id)["last_error"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_roll_back_without_an_error_leaves_the_end_to_the_answer(
    database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    """Red when leaving the block counts as completed: nobody would ever end the job."""
    app = Relevo()

    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context) -> str:
            async with ctx.transaction() as connection:
                await connection.execute(INSERT, [ctx.job_id])
                raise psycopg.Rollback
            return "nothing to do"

    else:

        @app.job("test.work")
        def handler(ctx: Context) -> str:
            with ctx.transaction() as connection:
                connection.execute(INSERT, [ctx.job_id])
                raise psycopg.Rollback
            return "nothing to do"

    job = handler.enqueue(owner)
    drain(app, database)

    assert query(database, "SELECT * FROM notes") == []
    row = job_row(owner, job.id)
    assert (row["state"], row["result"]) == ("completed", "nothing to do")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_connection_that_was_cut_while_it_lay_idle_costs_no_attempt(
    database: str, owner: psycopg.Connection, *, is_async: bool
) -> None:
    """Red without the check of the pools."""
    app, together = Relevo(), threading.Barrier(3)

    if is_async:

        @app.job("test.work")
        async def handler(ctx: Context) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(INSERT, [ctx.job_id])

    else:

        @app.job("test.work")
        def handler(ctx: Context) -> None:
            with ctx.transaction() as connection:
                connection.execute(INSERT, [ctx.job_id])
                if ctx.job_id <= 3:
                    together.wait(20)

    with running(app, database, connections=3):
        with owner.transaction():
            handler.enqueue_many(owner, [{}] * 3)
        wait_until(lambda: value(owner, "SELECT count(*) FROM notes") == 3)
        wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"))
        assert terminate(database, "relevo handlers") >= 1
        with owner.transaction():
            handler.enqueue_many(owner, [{}] * 6)
        wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"))

    assert query(database, "SELECT state, max(attempt) FROM relevo.jobs GROUP BY 1") == [
        ("completed", 1)
    ]
