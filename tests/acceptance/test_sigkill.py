"""Workers are killed in mid-flight; everything is done, and nothing is done twice."""

import signal
from random import Random

import psycopg
import pytest

from child_jobs import note
from factories import value
from workers import Child, make_effects, query, scaled, wait_until

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

JOBS = scaled(300, 3000)
KILLS = scaled(6, 60)


def test_workers_killed_in_mid_flight_lose_nothing_and_do_nothing_twice(database: str) -> None:
    """Red without the rescue, without the fence of ctx.transaction(), or when they are not one."""
    make_effects(database)
    random = Random(7)  # noqa: S311 -- a seed makes the kills repeatable
    killed: list[Child] = []
    children: list[Child] = []
    with psycopg.connect(database, autocommit=True) as owner:
        with owner.transaction():
            note.enqueue_many(owner, [{"seconds": 0.02}] * JOBS)
        try:

            def progressed() -> bool:
                while len(children) < 2:
                    name = f"child{len(children) + len(killed)}"
                    children.append(Child(database, name, lease=0.6, concurrency=4))
                done = value(owner, "SELECT count(*) FROM relevo.jobs WHERE NOT live")
                running = value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'")
                if len(killed) < KILLS and running and done * KILLS >= len(killed) * JOBS * 0.8:
                    victim = children.pop(random.randrange(len(children)))
                    victim.kill()
                    killed.append(victim)
                return done == JOBS

            wait_until(progressed, 150)
        finally:
            for child in (*children, *killed):
                child.end()
        worst = value(owner, "SELECT max(attempt - excused) FROM relevo.jobs")
        losses = value(owner, "SELECT sum(losses) FROM relevo.jobs")

    assert len(killed) == KILLS
    assert query(database, "SELECT state, count(*) FROM relevo.jobs GROUP BY 1") == [
        ("completed", JOBS)
    ]
    # Once for each job, however often it was started.
    assert query(
        database, "SELECT count(*), count(DISTINCT job_id) FROM public.effects WHERE note = 'once'"
    ) == [(JOBS, JOBS)]
    assert 0 < losses <= KILLS * 4
    assert worst <= 6
    # Every start but the last of a job is in its history.
    assert query(
        database,
        "SELECT count(*) FROM relevo.jobs j WHERE attempt - 1 <>"
        " (SELECT count(*) FROM relevo.attempts a WHERE a.job_id = j.id)",
    ) == [(0,)]


def test_a_worker_that_is_terminated_gracefully_leaves_nothing_running(database: str) -> None:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as owner:
        with owner.transaction():
            note.enqueue_many(owner, [{"seconds": 0.2}] * 40)
        child = Child(database, "graceful", concurrency=4)
        try:
            wait_until(lambda: value(owner, "SELECT count(*) FROM public.effects"))
            child.send(signal.SIGTERM)
            code = child.wait()
        finally:
            log = child.end()
        states = dict(query(database, "SELECT state, count(*) FROM relevo.jobs GROUP BY 1"))

    assert code == 0, log
    assert "running" not in states
    assert states["available"] > 0
    assert query(database, "SELECT sum(excused), sum(losses) FROM relevo.jobs") == [(0, 0)]
