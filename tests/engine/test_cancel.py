"""What is cancelled while it waits leaves the table as what fails does."""

from datetime import timedelta

import psycopg
import pytest

from factories import KIND, a_job, job_row, value
from relevo import DEFAULT_TENANT, KEEP, InvalidOption, Operation, Retention
from relevo.db.drivers import run
from relevo.engine.jobs.again import cancel_jobs, requeue_jobs

pytestmark = pytest.mark.core


def test_cancelled_jobs_stay_for_their_retention(connection: psycopg.Connection) -> None:
    """Red when the cancel writes no prune_at: the rows would stay for ever."""
    job_id = a_job(connection, aggregate_id="a")

    run(connection, cancel_jobs(DEFAULT_TENANT, KIND, "a", Retention(failed=timedelta(days=3))))

    row = job_row(connection, job_id)
    assert row["state"] == "cancelled"
    assert row["prune_at"] - row["finished_at"] == pytest.approx(
        timedelta(days=3), abs=timedelta(seconds=1)
    )


@pytest.mark.parametrize("columns", [{"key": "k"}, {}], ids=["a key for ever", "kept"])
def test_what_others_rely_on_stays(connection: psycopg.Connection, columns: dict) -> None:
    retention = Retention() if columns else KEEP
    a_job(connection, aggregate_id="a", **columns)
    a_job(connection, state="running", aggregate_id="a")

    done = run(connection, cancel_jobs(DEFAULT_TENANT, KIND, "a", retention))

    assert (done.cancelled, done.asked) == (1, 1)
    assert value(connection, "SELECT count(*) FROM relevo.jobs WHERE prune_at IS NULL") == 2


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (cancel_jobs("default", KIND, "a"), "tenant_id cannot be 'default'"),
        (cancel_jobs(DEFAULT_TENANT, KIND, "a", timedelta(days=3)), "pass a Retention"),
        (requeue_jobs("default", [1]), "tenant_id cannot be 'default'"),
        (requeue_jobs(DEFAULT_TENANT, [1], delay=5), r"pass timedelta\(seconds=5\)"),
    ],
)
def test_a_value_of_another_type_is_refused_before_any_sql(
    connection: psycopg.Connection, operation: Operation[object], said: str
) -> None:
    with pytest.raises(InvalidOption, match=said):
        run(connection, operation)
