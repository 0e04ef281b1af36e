"""F-013 and F-018: a worker is frozen for three leases and wakes, its jobs being others' by then.

Mechanisms: the fence by attempt and session; a loss is a start like any other and no failure; the
session that ended under a worker makes it cancel what it runs.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from field_children import BOUND, a_field_child, marks
from field_jobs import app, brief, first_hangs

from factories import history, job_row, value
from workers import LEASE, make_effects, query, running, wait_until

JOBS = 3


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_f013_f018_jobs_of_a_frozen_worker_start_again_and_it_changes_nothing_when_it_wakes(
    database: str, owner: psycopg.Connection, tmp_path: Path
) -> None:
    """Fence by attempt and session. Red without it, or when a loss is taken for the end."""
    traces = [tmp_path / str(number) for number in range(JOBS)]
    with a_field_child(database, "frozen", lease=LEASE.total_seconds()) as frozen:
        with owner.transaction():
            jobs = first_hangs.enqueue_many(
                owner, [{"seconds": 600.0, "trace": str(trace)} for trace in traces]
            )
        wait_until(lambda: len(marks(database, "began")) == JOBS, BOUND)
        old = value(owner, "SELECT id FROM relevo.workers")
        frozen.send(signal.SIGSTOP)
        query(database, "SELECT pg_sleep(%s)", 3 * LEASE.total_seconds())
        with running(app, database, name="other"):
            wait_until(lambda: len(marks(database, "done")) == JOBS, BOUND, "the second starts")
            ended = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
            wait_until(lambda: value(owner, ended) == JOBS, BOUND)
        before = [job_row(owner, job.id) for job in jobs]

        frozen.send(signal.SIGCONT)

        wait_until(lambda: all(trace.exists() for trace in traces), BOUND, "the cancellations")
        new = "SELECT max(id) FROM relevo.workers WHERE name = 'frozen'"
        wait_until(lambda: (value(owner, new) or 0) > old, BOUND, "a session of its own")
        later = brief.enqueue(owner)
        wait_until(lambda: job_row(owner, later.id)["state"] == "completed", BOUND)
        frozen_pid, log = frozen.pid, frozen.end()

    assert {trace.read_text() for trace in traces} == {str(frozen_pid)}
    assert f"session {old} has ended" in log or "lease cannot be proved" in log
    for job, row in zip(jobs, before, strict=True):
        assert job_row(owner, job.id) == row
        assert (row["state"], row["attempt"], row["losses"]) == ("completed", 2, 1)
        assert [attempt["outcome"] for attempt in history(owner, job.id)] == ["lost"]
    done = sorted((job.id, 2, os.getpid()) for job in jobs)
    assert sorted(marks(database, "done")) == [*done, (later.id, 1, frozen_pid)]
    assert marks(database, "woke") == []
