"""Jobs that were only measured go without a trace, and nothing else goes with them."""

import psycopg
import pytest

from factories import a_job, a_tenant, a_worker, some_jobs, value
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.measured import BATCH, count_unfinished, erase, take_job_id

pytestmark = pytest.mark.core

OURS = {"queue": "measured", "kind": "measured.noop"}


def left(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM relevo.jobs"))


def erase_ours(connection: psycopg.Connection, first: int) -> None:
    run(connection, erase(DEFAULT_TENANT, OURS["queue"], OURS["kind"], first))


@pytest.mark.parametrize("state", ["available", "running", "completed", "failed"])
def test_a_job_goes_whatever_its_state(connection: psycopg.Connection, state: str) -> None:
    first = run(connection, take_job_id())
    a_job(connection, state=state, **OURS)

    erase_ours(connection, first)

    assert left(connection) == 0


def test_more_than_a_batch_goes(connection: psycopg.Connection) -> None:
    first = run(connection, take_job_id())
    some_jobs(connection, BATCH + 1, **OURS)

    erase_ours(connection, first)

    assert left(connection) == 0


def test_jobs_of_others_and_earlier_ones_stay(connection: psycopg.Connection) -> None:
    other = a_tenant(connection)
    earlier = a_job(connection, **OURS)
    first = run(connection, take_job_id())
    others = [
        a_job(connection, queue="measured"),
        a_job(connection, kind="measured.noop"),
        a_job(connection, tenant_id=other, **OURS),
    ]

    erase_ours(connection, first)

    ids = connection.execute("SELECT id FROM relevo.jobs ORDER BY id").fetchall()
    assert [job_id for (job_id,) in ids] == sorted([earlier, *others])


def test_what_waits_and_what_runs_is_unfinished(connection: psycopg.Connection) -> None:
    a_job(connection, **OURS)
    a_job(connection, state="running", worker=a_worker(connection), **OURS)
    a_job(connection, state="completed", **OURS)
    a_job(connection)

    assert run(connection, count_unfinished(DEFAULT_TENANT, "measured")) == 2
