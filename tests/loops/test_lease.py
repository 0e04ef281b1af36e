"""The lease of a worker: kept while handlers block, lost while it is frozen, taken up again."""

import asyncio
import math
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from child_jobs import block, note, slow, stale
from factories import history, job_row, value
from relevo import Call, Context, Operation, Relevo
from relevo.db.statements import Statement
from workers import (
    a_child,
    effects,
    make_effects,
    query,
    running,
    settings,
    terminate,
    unreachable,
    wait_until,
)

pytestmark = pytest.mark.core


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection to a database where the children's effects have a table."""
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_a_handler_that_blocks_its_loop_for_many_leases_is_started_once(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when heartbeats run on the handlers' loop."""
    with (
        a_child(database, "first", lease=0.6),
        a_child(database, "second", lease=0.6),
    ):
        job = block.enqueue(owner, seconds=3.0)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed")

    assert effects(database, "began") == [(job.id, 1)]
    assert job_row(owner, job.id)["attempt"] == 1


def test_a_frozen_worker_loses_its_job_and_changes_nothing_when_it_wakes(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when settle is not fenced, or when the woken worker trusts its old lease."""
    with a_child(database, "frozen", lease=1.0) as frozen:
        job = slow.enqueue(owner, seconds=1.5)
        wait_until(lambda: effects(database, "began"))
        frozen.send(signal.SIGSTOP)
        with a_child(database, "other", lease=1.0):
            wait_until(lambda: job_row(owner, job.id)["state"] == "completed")
            winner = job_row(owner, job.id)

            frozen.send(signal.SIGCONT)

            # It is back when it holds a session again, and it has cancelled what it ran.
            wait_until(
                lambda: value(
                    owner,
                    "SELECT count(*) FROM relevo.workers"
                    " WHERE name = 'frozen' AND expires_at > clock_timestamp()",
                )
            )
            later = note.enqueue(owner)
            wait_until(lambda: job_row(owner, later.id)["state"] == "completed")
        log = frozen.end()

    assert effects(database, "began") == [(job.id, 1), (job.id, 2)]
    assert job_row(owner, job.id) == winner
    assert [(a["attempt"], a["outcome"]) for a in history(owner, job.id)] == [(1, "lost")]
    assert "has ended" in log or "cannot be proved" in log


def test_a_stale_transaction_of_a_frozen_worker_is_rolled_back(
    database: str, owner: psycopg.Connection
) -> None:
    with a_child(database, "frozen", lease=1.0) as frozen:
        job = stale.enqueue(owner, seconds=2.0)
        wait_until(lambda: effects(database, "began"))
        frozen.send(signal.SIGSTOP)
        with a_child(database, "other", lease=1.0):
            wait_until(lambda: job_row(owner, job.id)["state"] == "completed")
        frozen.send(signal.SIGCONT)
        wait_until(
            lambda: (
                not query(
                    database,
                    "SELECT 1 FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
                    " AND application_name = 'relevo handlers frozen'",
                )
            )
        )

    assert effects(database, "business") == [(job.id, 2)]


def test_a_worker_that_was_frozen_for_longer_than_its_watchdog_allows_goes_on(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a watchdog that slept itself takes its own sleep for a loop that hangs."""
    with a_child(database, "frozen", hangs=0.5) as frozen:
        first = note.enqueue(owner)
        wait_until(lambda: job_row(owner, first.id)["state"] == "completed")
        for _ in range(3):
            frozen.send(signal.SIGSTOP)
            query(database, "SELECT pg_sleep(1)")
            frozen.send(signal.SIGCONT)
            job = note.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["state"] == "completed", 10)

        assert frozen.is_alive


def test_a_session_that_ends_under_its_worker_is_replaced_and_its_jobs_are_given_up(
    database: str, owner: psycopg.Connection
) -> None:
    cancelled, began = threading.Event(), threading.Event()
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> str:
        began.set()
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()
        return "second"

    with running(app, database, poll=timedelta(seconds=0.2)):
        job = handler.enqueue(owner)
        assert began.wait(10)
        old = value(owner, "SELECT id FROM relevo.workers")
        with owner.transaction():
            owner.execute("UPDATE relevo.workers SET expires_at = clock_timestamp()")
            owner.execute("DELETE FROM relevo.workers")

        assert cancelled.wait(10)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed")
        new = value(owner, "SELECT max(id) FROM relevo.workers")

    assert new != old
    assert job_row(owner, job.id)["result"] == "second"
    assert job_row(owner, job.id)["attempt"] == 2


def test_a_new_session_looks_for_work_at_once_though_the_poll_is_long(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a new session waits for the old one's poll: it is not idle, so nobody tells it."""
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=60)):
        wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"))
        with owner.transaction():
            owner.execute("UPDATE relevo.workers SET expires_at = clock_timestamp()")
            owner.execute("DELETE FROM relevo.workers")
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers"))
        job = handler.enqueue(owner)

        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 8)


def test_a_job_handed_back_before_its_turn_is_not_started_after_all(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when what waits behind a handler that blocks the loop starts once the loop is free."""
    started: list[int] = []
    began, release = threading.Event(), threading.Event()
    app = Relevo()

    @app.job("test.block")
    async def blocking(ctx: Context) -> None:
        began.set()
        release.wait(20)

    @app.job("test.behind")
    async def behind(ctx: Context) -> None:
        started.append(ctx.job_id)

    blocking.enqueue(owner)
    worker = app.worker(settings(database, grace=timedelta(seconds=0.3), concurrency=4))
    worker.start()
    try:
        assert began.wait(10)
        job = behind.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "running")
        worker.ask_to_stop()
        assert worker.wait(20)
    finally:
        release.set()
    wait_until(lambda: not any(t.name == "relevo-handlers" for t in threading.enumerate()))

    row = job_row(owner, job.id)
    assert started == []
    assert (row["state"], row["excused"]) == ("available", 1)


def test_a_worker_outlives_a_database_that_is_away_for_a_while(
    server: str, database: str, owner: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        async with ctx.transaction():
            pass

    with running(app, database):
        first = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, first.id)["state"] == "completed")
        with unreachable(server, database):
            time.sleep(1.0)  # the outage itself
        with psycopg.connect(database, autocommit=True) as again:
            second = handler.enqueue(again)
            wait_until(lambda: job_row(again, second.id)["state"] == "completed", 6)

            assert job_row(again, second.id)["attempt"] <= 2


def test_a_worker_that_stops_without_a_database_leaves_no_heartbeat_behind(
    server: str, database: str, owner: psycopg.Connection
) -> None:
    """Red when the heartbeat is stopped only after everything was written: it would go on."""
    app = Relevo()
    began = threading.Event()

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        began.set()
        await asyncio.sleep(0.5)

    handler.enqueue(owner)
    worker = app.worker(settings(database, grace=timedelta(seconds=1)))
    worker.start()
    assert began.wait(10)
    with unreachable(server, database):
        worker.ask_to_stop()
        assert worker.wait(40)

    wait_until(lambda: not any(t.name == "relevo-heartbeat" for t in threading.enumerate()))


def test_a_stop_that_nobody_can_be_told_of_goes_on(
    database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pooler accepts a statement and has no server for it. Red when the stop waits for that
    until the engine's watch ends the process."""
    app = Relevo()

    def without_an_answer(_worker: int) -> Operation[None]:
        yield Call(Statement("sleep", "SELECT pg_sleep(120)"), {})

    monkeypatch.setattr("relevo.engine.jobs.session.stop_taking", without_an_answer)
    worker = app.worker(settings(database))
    worker.start()
    wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers"))
    worker.ask_to_stop()

    assert worker.wait(25)


@pytest.mark.direct("the claim's own session is cut; a pooler just takes another of its own")
def test_a_claim_whose_answer_was_lost_is_handed_back_uncharged(
    database: str, owner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim's backend dies; what it may have taken is found by what nobody here knows."""
    monkeypatch.setattr("relevo.loops.claimer.CLAIM_TIMEOUT", 0.5)
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=0.2)):
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers"))
        # As if a claim had been committed and its answer lost: a row held that nobody knows.
        job = handler.with_options(delay=timedelta(days=1)).enqueue(owner)
        owner.execute(
            "UPDATE relevo.jobs SET state = 'running', attempt = 1, started_at = now(),"
            " worker = (SELECT id FROM relevo.workers)"
        )
        cut_at = -math.inf

        def is_completed() -> bool:
            # The loop says other things between its claims; cut again if one of those was met.
            nonlocal cut_at
            if time.monotonic() > cut_at + 3 and terminate(database, "relevo claim"):
                cut_at = time.monotonic()
            return job_row(owner, job.id)["state"] == "completed"

        wait_until(is_completed)

    row, (attempt,) = job_row(owner, job.id), history(owner, job.id)
    assert (row["attempt"], row["excused"], row["losses"]) == (2, 1, 0)
    assert attempt["error"] == "the answer to the claim was lost"


@pytest.mark.direct("a loop's own session is found by its name, which a pooler's sessions change")
@pytest.mark.parametrize(
    "loop",
    [
        "claim",
        "settle",
        "rescue",
        "heartbeat",
        "listen",
        "handlers",
    ],
)
def test_a_worker_goes_on_when_any_of_its_connections_is_cut(
    database: str, owner: psycopg.Connection, loop: str
) -> None:
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> str:
        async with ctx.connection() as connection:
            await connection.execute("SELECT")
        return "done"

    with running(app, database, poll=timedelta(seconds=0.2)):
        first = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, first.id)["state"] == "completed")
        wait_until(lambda: terminate(database, f"relevo {loop}"))
        second = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, second.id)["state"] == "completed", 6)

    assert job_row(owner, second.id)["attempt"] == 1
