"""Somebody says that a job has come: it starts after one statement, and no other is forgotten."""

import time
from typing import Any

import psycopg

from factories import KIND, QUEUE, a_job, a_worker
from limiting import limit
from relevo.db.drivers import run
from relevo.db.operation import Operation
from relevo.engine.jobs.claim import claim
from relevo.model.ids import lane_of
from relevo.model.job import ClaimedJob
from relevo.model.ring import Ring
from relevo.model.scope import Scope


def noted(
    connection: psycopg.Connection, operation: Operation[list[ClaimedJob]]
) -> tuple[list[int], list[str]]:
    """Run a claim; answer the jobs, and the names of its statements."""
    names = []

    def stepped() -> Operation[list[ClaimedJob]]:
        rows: Any = None
        while True:
            try:
                call = operation.send(rows)
            except StopIteration as end:
                return list(end.value)
            names.append(call.statement.name)
            rows = yield call

    found = run(connection, stepped())
    return [job.id for job in found], names


def a_ring(connection: psycopg.Connection, worker: int) -> Ring:
    """A worker's memory after it has run one job, and found nothing since; a sweep is due."""
    ring = Ring()
    a_job(connection)
    for _ in range(2):
        run(connection, claim(worker, QUEUE, [KIND], 100, ring))
        ring.rest()
    return ring


def test_a_job_that_was_announced_starts_after_one_statement(
    connection: psycopg.Connection,
) -> None:
    """Red when it waits for the sweep that is due as well."""
    worker = a_worker(connection)
    ring = a_ring(connection, worker)
    job = a_job(connection)
    ring.expect_news()

    found, names = noted(connection, claim(worker, QUEUE, [KIND], 100, ring))

    assert found == [job]
    assert names == ["claim_lanes"]


def test_the_claim_after_an_announced_job_sweeps(connection: psycopg.Connection) -> None:
    """Red when news after news keeps a lane that nobody remembers from its turn."""
    worker = a_worker(connection)
    ring = a_ring(connection, worker)
    a_job(connection)
    elsewhere = a_job(connection, lane=lane_of(KIND, "elsewhere"))
    ring.expect_news()
    noted(connection, claim(worker, QUEUE, [KIND], 100, ring))
    ring.expect_news()
    a_job(connection)

    found, names = noted(connection, claim(worker, QUEUE, [KIND], 100, ring))
    if elsewhere not in found:
        found, names = noted(connection, claim(worker, QUEUE, [KIND], 100, ring))

    assert elsewhere in found
    assert names[0] == "claim_jobs"


def test_an_announced_job_in_a_lane_that_nobody_remembers_is_swept_for(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ring = a_ring(connection, worker)
    job = a_job(connection, lane=lane_of(KIND, "new"))
    ring.expect_news()

    found, names = noted(connection, claim(worker, QUEUE, [KIND], 100, ring))

    assert found == [job]
    assert names[:2] == ["claim_lanes", "claim_jobs"]
    assert names.count("claim_lanes") == 1


def test_under_limits_news_changes_nothing(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    ring = a_ring(connection, worker)
    limit(connection, Scope.QUEUE, QUEUE, 5)
    ring.end_look(time.monotonic(), is_limited=True)
    job = a_job(connection)
    ring.expect_news()

    found, names = noted(connection, claim(worker, QUEUE, [KIND], 100, ring))

    assert found == [job]
    assert "claim_limited" in names
