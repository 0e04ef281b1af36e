"""A worker that keeps up with many producers does not have each of them tell it."""

import threading
from datetime import timedelta

import psycopg
import pytest

from factories import states, value
from relevo import Context, Relevo
from relevo.model import pace
from workers import running, wait_until

IDLE = "SELECT count(*) FROM relevo.workers WHERE idle"


def an_app() -> Relevo:
    app = Relevo()

    @app.job("test.quick")
    async def quick(ctx: Context) -> None:
        """Nothing to do."""

    return app


def test_a_worker_looks_by_itself_while_jobs_flow_and_is_told_again_when_they_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a worker that keeps up stays marked as idle: each commit notifies, one at a time."""
    monkeypatch.setattr(pace, "TOLD_TOO_OFTEN", 20)
    app, stop = an_app(), threading.Event()

    def produce() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(
                    "INSERT INTO relevo.jobs (tenant_id, kind) SELECT id, 'test.quick'"
                    " FROM relevo.tenants"
                )
                connection.execute("SELECT pg_notify('relevo', 'default')")

    producer = threading.Thread(target=produce)
    with (
        running(app, database, poll=timedelta(seconds=60)),
        psycopg.connect(database, autocommit=True) as watch,
    ):
        wait_until(lambda: value(watch, IDLE) == 1, what="a worker that wants to be told")
        producer.start()
        try:
            wait_until(lambda: value(watch, IDLE) == 0, what="a worker that looks by itself")
        finally:
            stop.set()
            producer.join()
        wait_until(lambda: value(watch, IDLE) == 1, what="a worker that wants to be told again")
        wait_until(lambda: set(states(watch)) == {"completed"}, what="all jobs")


def test_a_worker_that_does_not_listen_asks_nobody_to_tell_it(
    database: str, connection: psycopg.Connection
) -> None:
    """Red when enqueues notify for somebody who polls: the switch would save nothing."""
    app = an_app()
    with (
        running(app, database, listen_dsn="", poll=timedelta(seconds=0.1)),
        psycopg.connect(database, autocommit=True) as watch,
    ):
        watch.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind) SELECT id, 'test.quick' FROM relevo.tenants"
        )
        wait_until(lambda: states(watch).get("completed") == 1, what="the job")
        idle = [value(watch, IDLE) for _ in range(20)]

    assert not any(idle)
