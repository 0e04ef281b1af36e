"""A whole worker in this process: which jobs it takes, how many, and what wakes it."""

import threading
import time
from datetime import timedelta

import psycopg

from factories import job_row, value
from relevo import (
    Context,
    Relevo,
)
from workers import drain, query, running, terminate, wait_until


def test_no_more_handlers_run_at_once_than_there_are_slots(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    most, now, gate = [0], [0], threading.Lock()

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        with gate:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.02)
        with gate:
            now[0] -= 1

    with owner.transaction():
        handler.enqueue_many(owner, [{}] * 40)
    drain(app, database, concurrency=3)

    assert most[0] == 3
    assert value(owner, "SELECT count(*) FROM relevo.jobs WHERE attempt = 1") == 40


def test_two_queues_are_both_served(app: Relevo, database: str, owner: psycopg.Connection) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    jobs = [handler.with_options(queue=queue).enqueue(owner) for queue in ("one", "two", "three")]
    drain(app, database, queues=("one", "two"))

    states = [job_row(owner, job.id)["state"] for job in jobs]
    assert states == ["completed", "completed", "available"]


def test_a_notification_starts_a_job_at_once_though_the_poll_is_long(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=30)):
        for _ in range(5):
            wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"))
            job = handler.enqueue(owner)
            wait_until(lambda job=job: job_row(owner, job.id)["state"] == "completed", 5)


def test_a_worker_with_no_free_slot_wants_no_wake_up_until_it_is_idle_again(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """F-024. Red when the flag is never cleared: every enqueue of a busy system would notify."""
    began, release = threading.Event(), threading.Event()

    @app.job("test.work")
    def handler(ctx: Context) -> None:
        began.set()
        release.wait(20)

    idle = "SELECT bool_or(idle) FROM relevo.workers"
    with running(app, database, concurrency=1):
        wait_until(lambda: value(owner, idle))
        handler.enqueue(owner)
        assert began.wait(10)
        wait_until(lambda: not value(owner, idle))
        release.set()
        wait_until(lambda: value(owner, idle))


def test_a_worker_that_stopped_well_leaves_no_session(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the row only expires: the last worker of a fleet would be listed for ever."""

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    handler.enqueue(owner)
    drain(app, database)

    sessions = "SELECT (SELECT count(*) FROM relevo.workers), count(*) FROM relevo.ended_workers"
    assert owner.execute(sessions.encode()).fetchone() == (0, 0)


def test_without_a_listener_the_poll_finds_the_job(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, listen_dsn="", poll=timedelta(seconds=0.2)):
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers") == 1)
        job = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 5)

    assert query(database, "SELECT 1 FROM pg_stat_activity WHERE query = 'LISTEN relevo'") == []


def test_a_listener_that_is_cut_off_listens_again_and_misses_nothing(
    app: Relevo, database: str, owner: psycopg.Connection
) -> None:
    """Red when the supervisor does not start the listener again, or it does not look first."""

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        """Nothing."""

    with running(app, database, poll=timedelta(seconds=30)):
        wait_until(lambda: value(owner, "SELECT bool_or(idle) FROM relevo.workers"))
        wait_until(lambda: terminate(database, "relevo listen"))
        job = handler.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 8)
