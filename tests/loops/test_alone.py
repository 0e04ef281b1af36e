"""A job that takes its process down runs alone, and ends; its neighbours complete."""

import threading
from datetime import timedelta

import psycopg
import pytest

from child_jobs import kill, note
from factories import a_job, history, job_row, value
from relevo import Context, Relevo
from workers import Child, effects, make_effects, query, running, settings, wait_until


def test_a_job_that_was_lost_twice_waits_until_nothing_else_runs_and_holds_up_new_claims(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when others are claimed while it runs: it would take them down with it."""
    alone_began, release = threading.Event(), threading.Event()
    neighbours: list[bool] = []
    app = Relevo()

    @app.job("test.killer")
    def killer(ctx: Context) -> None:
        alone_began.set()
        release.wait(20)

    @app.job("test.neighbour")
    def neighbour(ctx: Context) -> None:
        neighbours.append(release.is_set())

    a_job(owner, kind="test.killer", attempt=2, losses=2)
    with running(app, database, poll=timedelta(milliseconds=50)):
        assert alone_began.wait(10)
        with owner.transaction():
            neighbour.enqueue_many(owner, [{}] * 5)
        # Many polls pass; none may take what would run beside it.
        query(database, "SELECT pg_sleep(0.5)")
        claimed = value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'")
        release.set()
        wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"))

    assert claimed == 1
    assert neighbours == [True] * 5


@pytest.mark.parametrize("alone", [False, True], ids=["before_it", "itself"])
def test_a_thread_that_never_returns_does_not_keep_the_worker_from_its_jobs(
    database: str, owner: psycopg.Connection, *, alone: bool
) -> None:
    """Red when what has timed out still counts as running: nothing would be claimed for ever."""
    release = threading.Event()
    app = Relevo()

    @app.job("test.hangs", timeout=timedelta(milliseconds=200))
    def hangs(ctx: Context) -> None:
        release.wait(60)

    @app.job("test.work")
    def work(ctx: Context) -> None:
        """Nothing."""

    losses = 2 if alone else 0
    hung = a_job(owner, kind="test.hangs", attempt=losses, losses=losses)
    with running(app, database, poll=timedelta(milliseconds=50)):
        wait_until(lambda: job_row(owner, hung)["last_error"])
        suspect = a_job(owner, kind="test.work", attempt=2, losses=2)
        ordinary = a_job(owner, kind="test.work")
        try:
            for job_id in (suspect, ordinary):
                wait_until(lambda job_id=job_id: job_row(owner, job_id)["state"] == "completed")
        finally:
            release.set()

    assert job_row(owner, hung)["last_error"] == "timed out after 0.2 s"


def test_a_stop_does_not_wait_for_a_job_that_has_not_had_its_turn(
    database: str, owner: psycopg.Connection
) -> None:
    began, release = threading.Event(), threading.Event()
    app = Relevo()

    @app.job("test.first")
    def first(ctx: Context) -> None:
        began.set()
        release.wait(20)

    @app.job("test.killer")
    def killer(ctx: Context) -> None:
        """Nothing."""

    ordinary = first.enqueue(owner)
    worker = app.worker(settings(database, grace=timedelta(seconds=15)))
    worker.start()
    assert began.wait(10)
    waiting = a_job(owner, kind="test.killer", attempt=2, losses=2)
    wait_until(lambda: job_row(owner, waiting)["state"] == "running")
    worker.ask_to_stop()
    wait_until(lambda: value(owner, "SELECT bool_and(stopping) FROM relevo.workers"))
    release.set()

    assert worker.wait(5), "the stop waited for its whole grace"
    assert job_row(owner, ordinary.id)["state"] == "completed"
    assert (job_row(owner, waiting)["state"], job_row(owner, waiting)["excused"]) == (
        "available",
        1,
    )


@pytest.mark.core
def test_a_killer_ends_failed_after_its_attempts_and_its_neighbours_complete(
    database: str, owner: psycopg.Connection
) -> None:
    """F-004. Red when a loss does not count against max_attempts."""
    make_effects(database)
    killer = kill.enqueue(owner)
    with owner.transaction():
        neighbours = note.enqueue_many(owner, [{"seconds": 0.05}] * 30)
    children: list[Child] = []
    try:

        def done() -> bool:
            if not any(child.is_alive for child in children):
                children.append(Child(database, f"child{len(children)}", lease=0.6))
            return value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs")

        wait_until(done, 60)
    finally:
        for child in children:
            child.end()

    row = job_row(owner, killer.id)
    assert effects(database, "killed") == [(killer.id, start) for start in range(1, 6)]
    assert (row["state"], row["last_error"], row["losses"]) == ("failed", "worker lost", 5)
    assert [a["outcome"] for a in history(owner, killer.id)] == ["lost"] * 4 + ["failed"]
    once = effects(database, "once")
    assert sorted(job for job, _ in once) == sorted(job.id for job in neighbours)
    # After two losses the killer runs alone, so nobody is taken down a third time.
    losses = [job_row(owner, job.id)["losses"] for job in neighbours]
    assert max(losses) <= 2
