"""F-009 and F-010: between the claim of a job and its start.

Mechanisms: a slot is taken and freed with its start, and what the row says that nobody here knows
is handed back; the lease begins with the claim, so there is no state that has no deadline.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from field_children import BOUND, BUSY, HERE, clock, environment, last_stuck, marks
from field_jobs import app, brief

from factories import value
from relevo import Context, Relevo
from relevo.db.operation import Operation
from relevo.loops import claimer
from relevo.loops import handlers as handlers_room
from relevo.loops.handlers import Handlers, Start
from workers import LEASE, make_effects, query, running, scaled, wait_until

KILLS = scaled(12, 100)
JOBS = 100


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def failing_twice(method: Callable[..., Any], failed: list[object]) -> Callable[..., Any]:
    """The same, but its first two calls raise."""

    def call(*args: Any) -> Any:
        if len(failed) < 2 and (len(args) == 1 or args[-1]):
            failed.append(args)
            msg = "injected between claim and start"
            raise RuntimeError(msg)
        return method(*args)

    return call


def losing_twice(claim: Callable[..., Operation[Any]], failed: list[object]) -> Callable[..., Any]:
    """The same claim, whose first two answers are lost when they are committed."""

    def call(*args: Any) -> Operation[Any]:
        answer = yield from claim(*args)
        if answer and len(failed) < 2:
            failed.append(answer)
            msg = "injected after the claim"
            raise psycopg.OperationalError(msg)
        return answer

    return call


@pytest.mark.parametrize("where", ["answer", "start", "hand-over"])
def test_f009_a_failure_between_claim_and_start_costs_no_slot(
    database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Slots are counted from what runs. Red when one stays taken, or a row stays held unknown."""
    failed: list[object] = []
    monkeypatch.setattr(claimer, "CLAIM_TIMEOUT", 0.5)
    if where == "answer":
        monkeypatch.setattr(claimer, "claim", losing_twice(claimer.claim, failed))
    elif where == "hand-over":
        monkeypatch.setattr(Handlers, "start", failing_twice(Handlers.start, failed))
    else:
        monkeypatch.setattr(Start, "begin", failing_twice(Start.begin, failed))
    with running(app, database, concurrency=2, poll=timedelta(seconds=0.2)):
        brief.enqueue(owner)
        wait_until(lambda: len(failed) == 1, BOUND)
        brief.enqueue(owner)
        wait_until(lambda: len(failed) == 2, BOUND)
        with owner.transaction():
            later = brief.enqueue_many(owner, [{}] * JOBS)

        wait_until(lambda: len(marks(database, "done")) >= JOBS, BOUND, "the next 100 jobs")
        held = "SELECT count(*) FROM relevo.jobs WHERE state = 'running'"
        wait_until(lambda: value(owner, held) == 0, BOUND, "nothing being held")

    done = {job for job, _, _ in marks(database, "done")}
    assert done >= {job.id for job in later}


def test_f009_a_thread_that_cannot_be_started_costs_no_slot_and_no_attempt(
    database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the slot, and the call that no thread takes, outlive the failed start."""
    failed: list[object] = []
    begin, plain = threading.Thread.start, Relevo()

    @plain.job("test.plain")
    def work(ctx: Context) -> None:
        """End at once."""

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("relevo-handler-") and len(failed) < 2:
            failed.append(thread)
            msg = "can't start new thread"
            raise RuntimeError(msg)
        begin(thread)

    monkeypatch.setattr(handlers_room, "NO_THREAD_DELAY", timedelta(seconds=0.2))
    monkeypatch.setattr(threading.Thread, "start", start)
    with owner.transaction():
        work.enqueue_many(owner, [{}] * JOBS)
    with running(plain, database, concurrency=2, poll=timedelta(seconds=0.2)):
        wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"), BOUND)

    assert len(failed) == 2
    ends = (
        "SELECT state, sum(attempt - excused), sum(excused), count(*) FROM relevo.jobs GROUP BY 1"
    )
    assert query(database, ends) == [("completed", JOBS, 2, JOBS)]


def test_f010_jobs_of_workers_killed_between_claim_and_start_are_started_elsewhere(
    database: str, owner: psycopg.Connection
) -> None:
    """The lease begins with the claim. Red when only what has started has a deadline."""
    with owner.transaction():
        jobs = brief.enqueue_many(owner, [{}] * KILLS)
    subprocess.run(
        [sys.executable, str(HERE / "dying_worker.py"), database, str(KILLS)],
        env=environment(),
        check=True,
        timeout=BOUND + 2 * KILLS,
    )
    held = "SELECT count(*), count(DISTINCT worker) FROM relevo.jobs WHERE state = 'running'"
    assert query(database, held) == [(KILLS, KILLS)]
    assert marks(database, "began") == []
    killed_at = clock(database)

    with running(app, database):
        stuck_at = last_stuck(
            database, lambda: len(marks(database, "done")) == KILLS, "all of them"
        )

    assert sorted(marks(database, "began")) == sorted((job.id, 2, os.getpid()) for job in jobs)
    started = "SELECT max(at) FROM public.effects WHERE note = 'began'"
    assert value(owner, started) - killed_at < 2 * LEASE + BUSY
    assert stuck_at - killed_at < 2 * LEASE + BUSY
