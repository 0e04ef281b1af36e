"""F-042 to F-045, F-047 to F-049: values that rows cannot hold, and rows that handlers cannot read.

Mechanisms: a payload is written, read back and compared before any SQL (model/payload); results
and errors are cleaned and cut before they are settled (model/text, write_result); a payload that
does not decode ends its own start and nothing else (loops/handlers).
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest

from factories import a_job, history, job_row, make_due, value
from relevo import Backoff, Context, JobKind, Options, Relevo
from relevo.model.errors import PayloadError, PayloadTooLarge
from workers import drain, running, wait_until


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def anything(app: Relevo) -> Any:
    @app.job("test.anything")
    async def handler(ctx: Context, value: Any = None) -> None:
        """Nothing."""

    return handler


def refused(handler: Any, connection: psycopg.Connection, payload: object, kind: type) -> str:
    """Enqueue what must be refused; answers the message, and proves the transaction is usable."""
    with connection.transaction():
        handler.enqueue(connection, value="before")
        with pytest.raises(kind) as error:
            handler.enqueue(connection, value=payload)
        handler.enqueue(connection, value="after")
    return str(error.value)


def test_f042_a_nul_in_a_result_is_stored_as_a_replacement(
    database: str, owner: psycopg.Connection
) -> None:
    """Red without clean() in write_result."""
    app = Relevo()

    @app.job("test.result")
    async def handler(ctx: Context) -> dict[str, str]:
        return {"t": "a\0b"}

    job = handler.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"], row["result"]) == ("completed", 1, {"t": "a\ufffdb"})


def test_f042_a_nul_in_an_error_is_stored_as_a_replacement(
    database: str, owner: psycopg.Connection
) -> None:
    """Red without clean_text() in fit_error."""
    app = Relevo()

    @app.job("test.error")
    async def handler(ctx: Context) -> None:
        msg = "x\0y \ud800"
        raise ValueError(msg)

    job, after = handler.enqueue(owner), anything(app).enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert "x\ufffdy \ufffd" in row["last_error"]
    assert job_row(owner, after.id)["state"] == "completed"


@pytest.mark.parametrize(
    ("payload", "path"),
    [({"a\0": 1}, "$.value."), ({"a": [{"b": "x\0"}]}, "$.value.a[0].b"), ("\0", "$.value")],
    ids=str,
)
def test_f043_a_nul_in_the_arguments_is_refused_with_its_path_before_any_sql(
    owner: psycopg.Connection, payload: object, path: str
) -> None:
    """Red without refuse_nul: the server would refuse it and spoil the transaction."""
    message = refused(anything(Relevo()), owner, payload, ValueError)

    assert path in message
    assert value(owner, "SELECT count(*) FROM relevo.jobs") == 2


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_f044_a_number_that_json_lacks_is_refused_before_any_sql(
    owner: psycopg.Connection, number: float
) -> None:
    """Red without the comparison after reading back: the encoder writes null for it."""
    message = refused(anything(Relevo()), owner, {"n": [number]}, ValueError)

    assert "$.value.n[0]" in message


def test_f044_a_result_with_such_a_number_ends_the_job_after_one_start(
    database: str, owner: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("test.result")
    async def handler(ctx: Context) -> list[float]:
        return [1.0, float("nan")]

    job = handler.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"], row["result"]) == ("completed", 1, None)
    assert "result could not be stored" in row["last_error"]


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), "datetime"),
        (UUID(int=7), "UUID"),
        (Decimal("1.10"), "Decimal"),
    ],
    ids=str,
)
def test_f045_a_type_that_json_lacks_is_refused_with_path_and_type(
    owner: psycopg.Connection, payload: object, name: str
) -> None:
    """Red when the encoder's text for it is accepted: it would come back as text."""
    message = refused(anything(Relevo()), owner, {"x": payload}, TypeError)

    assert "$.value.x" in message
    assert name in message


def test_f045_an_annotated_parameter_receives_an_equal_value_of_its_type(
    database: str, owner: psycopg.Connection
) -> None:
    app, seen = Relevo(), []

    @app.job("test.types")
    async def handler(
        ctx: Context, at: datetime, order: UUID, amount: Decimal, many: list[timedelta]
    ) -> None:
        seen.append((at, order, amount, many))

    given = (
        datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        UUID(int=7),
        Decimal("1.10"),
        [timedelta(seconds=1.5)],
    )
    handler.enqueue(owner, *given)
    drain(app, database)

    assert seen == [given]
    assert [type(part) for part in seen[0]] == [type(part) for part in given]
    assert str(seen[0][2]) == "1.10"


def test_f047_a_huge_error_is_cut_and_the_failure_recorded(
    database: str, owner: psycopg.Connection
) -> None:
    """Red without fit_error."""
    app = Relevo()

    @app.job("test.error")
    async def handler(ctx: Context) -> None:
        raise Exception("x" * 50_000_000)  # noqa: TRY002 -- as in the case

    job = handler.enqueue(owner)
    drain(app, database)

    row = job_row(owner, job.id)
    assert (row["state"], row["attempt"]) == ("available", 1)
    assert len(row["last_error"].encode()) <= 8 * 1024
    assert "truncated" in row["last_error"]


def test_f047_a_job_that_failed_often_stays_small_and_keeps_its_first_and_last_error(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when errors are appended to the job's own row."""
    app = Relevo()

    @app.job("test.error", max_attempts=100, retry=Backoff(timedelta(hours=1), cap=timedelta(1)))
    async def handler(ctx: Context) -> None:
        raise ValueError(f"start {ctx.attempt} " + "x" * 100_000)

    job = handler.enqueue(owner)
    with running(app, database, poll=timedelta(milliseconds=50)):
        for start in range(1, 26):
            wait_until(lambda start=start: len(history(owner, job.id)) == start)
            make_due(owner, job.id)
    size = value(owner, "SELECT pg_column_size(j.*) FROM relevo.jobs AS j WHERE id = %s", job.id)

    assert size < 64 * 1024
    errors = [attempt["error"] for attempt in history(owner, job.id)]
    assert errors[0].startswith("ValueError: start 1 ")
    assert errors[24].startswith("ValueError: start 25 ")


def deep(depth: int) -> object:
    nested: object = 1
    for _ in range(depth):
        nested = {"a": nested}
    return nested


def test_f048_a_value_nested_too_deeply_is_refused_at_the_enqueue(
    owner: psycopg.Connection,
) -> None:
    assert "deep" in refused(anything(Relevo()), owner, deep(100_000), PayloadError)


@pytest.mark.parametrize("payload", [[1], "s", 0, None, True, deep(60)], ids=lambda p: str(p)[:12])
def test_f048_a_value_that_is_no_object_comes_back_equal(
    database: str, owner: psycopg.Connection, payload: object
) -> None:
    app, seen = Relevo(), []

    @app.job("test.anything")
    async def handler(ctx: Context, value: Any) -> None:
        seen.append(value)

    handler.enqueue(owner, value=payload)
    drain(app, database)

    assert seen == [payload]
    assert type(seen[0]) is type(payload)


@pytest.mark.parametrize("text", ["[1]", '"s"', "0", "null", "true"])
def test_f048_a_row_whose_payload_is_no_object_fails_readably_and_the_worker_lives(
    database: str, owner: psycopg.Connection, text: str
) -> None:
    """Red when decoding happens outside the start's own try."""
    app = Relevo()
    good = anything(app).enqueue(owner)
    bad = a_job(owner, kind="test.anything", payload=text)

    with running(app, database):
        wait_until(lambda: job_row(owner, bad)["state"] == "failed")
        after = anything_again(app).enqueue(owner)
        wait_until(lambda: job_row(owner, after.id)["state"] == "completed")

    row = job_row(owner, bad)
    assert row["attempt"] == 1
    assert "does not fit 'test.anything'" in row["last_error"]
    assert job_row(owner, good.id)["state"] == "completed"


def anything_again(app: Relevo) -> Any:
    """The kind that `anything` declared."""
    return JobKind(app, app.registry.get("test.anything"), Options())


def test_f048_a_row_nested_deeply_by_sql_ends_its_start_and_not_the_worker(
    database: str, owner: psycopg.Connection
) -> None:
    app = Relevo()
    anything(app)
    nested = '{"value":' + "[" * 4000 + "]" * 4000 + "}"
    bad = a_job(owner, kind="test.anything", payload=nested)

    with running(app, database):
        wait_until(lambda: value(owner, "SELECT last_error FROM relevo.jobs WHERE id = %s", bad))
        after = anything_again(app).enqueue(owner)
        wait_until(lambda: job_row(owner, after.id)["state"] == "completed")

    assert value(owner, "SELECT attempt FROM relevo.jobs WHERE id = %s", bad) == 1


def test_f049_a_payload_over_the_limit_is_refused_before_any_sql(
    owner: psycopg.Connection,
) -> None:
    """Red without the limit in PayloadSchema.encode; the time bound is ten times the value."""
    huge = "x" * 100_000_000
    began = time.monotonic()

    message = refused(anything(Relevo()), owner, huge, PayloadTooLarge)

    assert time.monotonic() - began < 10
    assert "the limit is 1048576" in message


def test_f049_the_limit_can_be_set(owner: psycopg.Connection) -> None:
    small, large = anything(Relevo(max_payload=100)), anything(Relevo(max_payload=10_000_000))

    refused(small, owner, "x" * 100, PayloadTooLarge)

    assert large.enqueue(owner, value="x" * 2_000_000).created
