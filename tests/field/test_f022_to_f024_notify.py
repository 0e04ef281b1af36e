"""F-022 to F-024: notifications that nobody heard, that were too large, or too many.

Mechanisms: polling is the guarantee, a notification only a hint; whoever is woken claims
until nothing is due; a hint carries the queue's name and nothing else; PostgreSQL sends
equal hints of one transaction once; only idle workers are told anything.
"""

import time
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from factories import a_worker, value
from relevo import Context, Relevo
from workers import running, wait_until

HOUR = timedelta(hours=1)
DONE = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
IS_IDLE = "SELECT bool_or(idle) FROM relevo.workers"


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def ear(database: str) -> Iterator[psycopg.Connection]:
    """Hears what workers hear."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("LISTEN relevo")
        yield connection


app = Relevo()


@app.job("test.work")
async def work(ctx: Context, text: str = "") -> None:
    """Nothing."""


def heard(ear: psycopg.Connection) -> list[str]:
    """The hints so far; one of our own says where they end."""
    ear.execute("SELECT pg_notify('relevo', 'the end')")
    said = []
    for hint in ear.notifies(timeout=60):
        if hint.payload == "the end":
            return said
        said.append(hint.payload)
    msg = "not even our own notification came"
    raise AssertionError(msg)


def test_f022_jobs_of_which_nobody_was_told_are_all_run(
    database: str, owner: psycopg.Connection
) -> None:
    with owner.transaction():
        work.enqueue_many(owner, [{}] * 1000)
    second = timedelta(seconds=1)
    deaf = {"listen_dsn": "", "poll": second, "queues": ("default", "other")}
    with (
        running(app, database, name="one", **deaf),
        running(app, database, name="two", **deaf),
    ):
        wait_until(lambda: value(owner, DONE) == 1000, 60)
        work.with_options(queue="other").enqueue(owner)
        wait_until(lambda: value(owner, DONE) == 1001, 60)


def test_f022_one_hint_is_enough_for_a_hundred_jobs(
    database: str, owner: psycopg.Connection, ear: psycopg.Connection
) -> None:
    """Red when a hint takes one job, or one batch, and the rest waits for the poll."""
    with running(app, database, concurrency=2, poll=HOUR):
        wait_until(lambda: value(owner, IS_IDLE), 60)
        with owner.transaction():
            work.enqueue_many(owner, [{}] * 100)
        wait_until(lambda: value(owner, DONE) == 100, 60)

    assert heard(ear) == ["default"]


def test_f023_neither_a_megabyte_nor_ten_thousand_rows_are_too_much_for_a_hint(
    owner: psycopg.Connection, ear: psycopg.Connection
) -> None:
    a_worker(owner, kinds=("test.work",), idle=True)

    large = work.enqueue(owner, text="x" * 1_000_000)
    after_the_large = heard(ear)
    with owner.transaction():
        many = work.enqueue_many(owner, [{}] * 10_000)
    after_the_many = heard(ear)

    assert large.created
    assert all(each.created for each in many)
    assert after_the_large == after_the_many == ["default"]


def test_f024_a_transaction_sends_one_hint_to_a_queue_however_often_it_enqueues(
    owner: psycopg.Connection, ear: psycopg.Connection
) -> None:
    a_worker(owner, kinds=("test.work",), idle=True)

    with owner.transaction():
        for _ in range(10):
            work.enqueue(owner)
        work.enqueue_many(owner, [{}] * 10)

    assert heard(ear) == ["default"]


def test_f024_for_a_worker_that_only_polls_nobody_is_told_anything(
    database: str, owner: psycopg.Connection, ear: psycopg.Connection
) -> None:
    """The switch is the worker's: with an empty `listen_dsn` it never says that it is idle.

    An enqueue tells only idle workers, so where all have it off none sends anything. Red when
    a worker that does not listen asks to be told all the same.
    """
    poll = timedelta(seconds=0.1)
    with running(app, database, listen_dsn="", poll=poll):
        for number in range(1, 4):
            work.enqueue(owner)
            wait_until(lambda number=number: value(owner, DONE) == number, 60)
            # By then it is at rest, which is when it would ask to be told.
            time.sleep(3 * poll.total_seconds())
            assert value(owner, IS_IDLE) is False
        with owner.transaction():
            work.enqueue_many(owner, [{}] * 10)
        wait_until(lambda: value(owner, DONE) == 13, 60)

    assert heard(ear) == []


def test_f024_while_everybody_works_nobody_takes_the_lock_of_all_commits(
    owner: psycopg.Connection, ear: psycopg.Connection
) -> None:
    """Red when an enqueue notifies whether or not somebody wants to be told."""
    a_worker(owner, kinds=("test.work",), idle=False)
    a_worker(owner, kinds=("test.work",), queues=("other",), idle=True)

    for _ in range(3):
        work.enqueue(owner)
    with owner.transaction():
        work.enqueue_many(owner, [{}] * 10)

    assert heard(ear) == []
