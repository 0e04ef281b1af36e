"""F-038, F-039 and F-041: keys that collide, that an orphan keeps, or that an end takes along.

Mechanisms: a job falls due by its timestamp, no state changes and no index is met; a key that
is held while its job lives is freed by the rescue's way to its end; a key among waiting jobs
is freed by the claim, and an end names its job by id, never by key.
"""

import threading
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from child_jobs import slow
from factories import history, job_row, make_due, some_jobs, value
from relevo import Backoff, Context, KeyMode, Relevo
from workers import LEASE, a_child, effects, make_effects, running, wait_until

HOUR = timedelta(hours=1)
POLL = timedelta(milliseconds=50)
BUSY = timedelta(seconds=2)
"""What a machine with two busy cores may add to a bound that is told by the server's clock."""


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def completed(owner: psycopg.Connection) -> int:
    return int(value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"))


@pytest.mark.parametrize("mode", list(KeyMode))
def test_f038_a_scheduled_job_holds_its_key_and_falls_due_among_others(
    database: str,
    owner: psycopg.Connection,
    mode: KeyMode,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The stated rule: who comes second is refused at once, and told who holds the key."""
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    keyed = work.with_options(key="k", key_mode=mode)
    with owner.transaction():
        scheduled = keyed.with_options(delay=HOUR).enqueue(owner)
        second = keyed.enqueue(owner)
    some_jobs(owner, 20)
    with running(app, database, poll=POLL):
        make_due(owner, scheduled.id)
        wait_until(lambda: completed(owner) == 21, 60)

    assert (second.created, second.id) == (False, scheduled.id)
    assert value(owner, "SELECT max(attempt) FROM relevo.jobs") == 1
    assert not caplog.records


def test_f038_a_retry_that_falls_due_beside_a_job_of_its_key_hinders_nobody(
    database: str, owner: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when going back takes the key back: the row could not be written, again and again."""
    app = Relevo()

    @app.job("test.work", retry=Backoff(HOUR, cap=HOUR))
    async def work(ctx: Context, *, fails: bool = False) -> None:
        if fails and ctx.attempt == 1:
            with psycopg.connect(database) as other:
                keyed.enqueue(other)
            raise ConnectionError

    keyed = work.with_options(key="k", key_mode=KeyMode.WAITING)
    with owner.transaction():
        first = keyed.enqueue(owner, fails=True)
    with running(app, database, poll=POLL):
        wait_until(lambda: completed(owner) == 1, 60)
        wait_until(lambda: job_row(owner, first.id)["state"] == "available", 60)
        with owner.transaction():
            third = keyed.with_options(delay=HOUR).enqueue(owner)
        some_jobs(owner, 20)
        owner.execute("UPDATE relevo.jobs SET available_at = now() WHERE live")
        wait_until(lambda: completed(owner) == 23, 60)

    assert third.created
    assert len(history(owner, first.id)) == 1
    # The failure itself, once.
    assert len(caplog.records) == 1


def test_f039_a_killed_workers_unique_job_is_recovered_and_then_frees_its_key(
    database: str, owner: psycopg.Connection
) -> None:
    unique = slow.with_options(key="k", key_mode=KeyMode.LIVE)
    with a_child(database, "first") as first:
        with owner.transaction():
            job = unique.enqueue(owner, seconds=1.0)
        wait_until(lambda: effects(database, "began"), 60)
        with owner.transaction():
            refused = unique.enqueue(owner, seconds=1.0)
        killed_at = value(owner, "SELECT clock_timestamp()")
        first.kill()
    with a_child(database, "second"):
        wait_until(lambda: len(effects(database, "began")) == 2, 60)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 60)
        with owner.transaction():
            again = unique.enqueue(owner, seconds=0.0)

    row = job_row(owner, job.id)
    assert (refused.created, refused.id) == (False, job.id)
    assert (row["attempt"], row["losses"]) == (2, 1)
    assert row["started_at"] - killed_at <= 2 * LEASE + BUSY
    assert again.created


def test_f041_a_job_that_came_while_its_key_ran_runs_as_well(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when the end of the first ends whatever has its key."""
    app, go, began = Relevo(), threading.Event(), threading.Event()
    starts: list[int] = []

    @app.job("test.work")
    def work(ctx: Context) -> None:
        starts.append(ctx.job_id)
        began.set()
        go.wait(60)

    keyed = work.with_options(key="k", key_mode=KeyMode.WAITING)
    with owner.transaction():
        first = keyed.enqueue(owner)
    with running(app, database, concurrency=1, poll=POLL):
        assert began.wait(60)
        with owner.transaction():
            second = keyed.enqueue(owner)
            third = keyed.enqueue(owner)
        go.set()
        wait_until(lambda: completed(owner) == 2, 60)

    assert second.created
    assert (third.created, third.id) == (False, second.id)
    assert starts == [first.id, second.id]
