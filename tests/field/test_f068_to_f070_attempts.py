"""F-068 to F-070: backoff that overflows, ends tested with equality, limits that mean two things.

Mechanisms: Backoff.delay compares logarithms before it raises to a power; settle and rescue
compare with >=; one check of max_attempts serves kinds and options, and the table has it too.
"""

from datetime import timedelta
from random import Random

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import (
    a_job,
    a_worker,
    claim_some,
    job_row,
    make_due,
    settle_some,
)
from relevo import Backoff, Context, Relevo
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from relevo.model.settlement import Action

SECOND = timedelta(seconds=1)
CAP = 300 * SECOND


def test_f068_ten_thousand_waits_are_above_zero_within_the_cap_and_never_shrink() -> None:
    rule = Backoff(10 * SECOND, 2, CAP)

    waits = [rule.delay(attempt) for attempt in range(1, 10_001)]

    assert all(timedelta(0) < wait <= CAP for wait in waits)
    assert waits == sorted(waits)


@given(attempt=st.integers(1, 10_000), jitter=st.floats(0, 0.999), seed=st.integers())
def test_f068_with_jitter_waits_stay_within_the_same_bounds(
    attempt: int, jitter: float, seed: int
) -> None:
    rule = Backoff(10 * SECOND, 2, CAP, jitter)

    wait = rule.delay(attempt, Random(seed))  # noqa: S311 -- a seed makes the test repeatable

    assert timedelta(0) < wait <= CAP


@pytest.mark.parametrize(
    "counts", [{"attempt": 7, "max_attempts": 5}, {"attempt": 3, "max_attempts": 1}], ids=str
)
def test_f069_a_failure_beyond_the_last_attempt_ends_the_job(
    connection: psycopg.Connection, counts: dict[str, int]
) -> None:
    """Red when the settle compares with equality."""
    worker = a_worker(connection)
    job_id = a_job(connection, **counts)

    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED, error="e")

    assert job_row(connection, job_id)["state"] == "failed"


def test_f069_a_loss_beyond_the_last_attempt_ends_the_job(connection: psycopg.Connection) -> None:
    """Red when the rescue compares with equality."""
    worker = a_worker(connection, lease=-1)
    job_id = a_job(connection, state="running", worker=worker, attempt=7, max_attempts=5)
    run(connection, end_expired_sessions())

    run(connection, rescue_lost_jobs())

    assert job_row(connection, job_id)["state"] == "failed"


def test_f069_lowering_the_limit_below_the_count_ends_the_job_at_its_next_failure(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=6)
    for _ in range(3):
        make_due(connection, job_id)
        settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED)
    connection.execute("UPDATE relevo.jobs SET max_attempts = 2")
    make_due(connection, job_id)

    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED)

    assert job_row(connection, job_id)["state"] == "failed"


BAD = [0, -1, 2.5, True, 10**10, "3", float("inf")]


@pytest.mark.parametrize("number", [*BAD, None], ids=repr)
def test_f070_a_kind_refuses_a_limit_that_is_no_count_of_starts(number: object) -> None:
    with pytest.raises(ValueError, match="counts starts"):

        @Relevo().job("test.work", max_attempts=number)  # type: ignore[arg-type]
        async def handler(ctx: Context) -> None:
            """Nothing."""


@pytest.mark.parametrize("number", BAD, ids=repr)
def test_f070_an_enqueue_refuses_the_same_limits(number: object) -> None:
    @Relevo().job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with pytest.raises(ValueError, match="counts starts"):
        handler.with_options(max_attempts=number)


@pytest.mark.parametrize("number", [0, -1, 10**10, None], ids=repr)
def test_f070_the_table_refuses_them_as_well(
    connection: psycopg.Connection, number: object
) -> None:
    with pytest.raises(psycopg.Error) as refused:
        connection.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind, max_attempts)"
            " SELECT id, 'test.work', %s FROM relevo.tenants",
            [number],
        )

    assert refused.value.sqlstate in ("23514", "23502", "22003")


def test_f070_one_start_means_one_start(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, max_attempts=1)

    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED, error="e")

    row = job_row(connection, job_id)
    assert (row["state"], row["attempt"]) == ("failed", 1)
