"""A worker that rests until its next sweep is told of a new job all the same."""

from datetime import timedelta

import psycopg
import pytest

from factories import states
from relevo import Context, Relevo
from relevo.model import pace
from workers import running, wait_until


def test_a_job_that_comes_while_a_sweep_rests_is_started_at_once(
    database: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when the rest is waited out, or begun before the worker says that it is idle."""
    monkeypatch.setattr(pace, "SWEEP_SHARE", 1e9)
    app = Relevo()

    @app.job("test.quick")
    def quick(_ctx: Context) -> None:
        """Nothing to do."""

    def completed() -> int:
        connection.rollback()
        return states(connection).get("completed", 0)

    quick.enqueue(connection)
    connection.commit()
    with running(app, database, poll=timedelta(seconds=60)):
        for number in range(1, 4):
            wait_until(lambda number=number: completed() == number, what=f"{number} jobs")
            wait_until(
                lambda: (
                    connection.execute("SELECT FROM relevo.workers WHERE idle").fetchone()
                    is not None
                ),
                what="a worker that wants to be told",
            )
            connection.rollback()
            quick.enqueue(connection)
            connection.commit()
        wait_until(lambda: completed() == 4, what="four jobs")
