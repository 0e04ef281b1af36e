"""F-011, F-012, F-015 and F-016: a fleet of eight, and jobs that run or wait for many leases.

Mechanisms: three beats fit into a lease, so one may be lost; heartbeats have a thread of their
own; whether a job is lost depends on its worker's lease and never on how long it runs; a job that
is not due is in nobody's hands.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count

import psycopg
import pytest
from field_children import BOUND, BUSY
from field_jobs import app, block, brief, long
from psycopg import sql
from psycopg.conninfo import make_conninfo

from factories import history, job_row, value
from relevo.loops.heartbeat import Heartbeat
from workers import effects, make_effects, query, running, scaled, wait_until

WORKERS = 8
LEASE = timedelta(seconds=2)
AWAITS = float(scaled(10, 20))
"""The seconds that the long handler awaits: five leases every day, ten in full."""


@pytest.fixture(scope="module")
def fleet(server: str, template: str) -> Iterator[str]:
    """A database where eight workers, losing every second beat, ran the jobs of all cases."""
    name = f"relevo_fleet_{os.getpid()}"
    dsn = make_conninfo(server, dbname=name)
    with psycopg.connect(server, autocommit=True) as admin:
        clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        admin.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
        make_effects(dsn)
        with pytest.MonkeyPatch.context() as patch:
            lose_every_second_beat(patch)
            run_all(dsn)
        yield dsn
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def lose_every_second_beat(patch: pytest.MonkeyPatch) -> None:
    """Every worker: the first opens its session, then one is lost and one arrives."""
    beat, beats = Heartbeat._beat, dict[Heartbeat, Iterator[int]]()

    def lossy(heartbeat: Heartbeat) -> None:
        if next(beats.setdefault(heartbeat, count())) % 2 == 0:
            beat(heartbeat)

    patch.setattr(Heartbeat, "_beat", lossy)


def run_all(dsn: str) -> None:
    with ExitStack() as workers, psycopg.connect(dsn, autocommit=True) as owner:
        for number in range(WORKERS):
            name = f"worker{number}"
            workers.enter_context(running(app, dsn, name=name, lease=LEASE, connections=2))
        seen = "SELECT count(*) FROM relevo.workers"
        wait_until(lambda: value(owner, seen) == WORKERS, BOUND, "the fleet")
        with owner.transaction():
            long.with_options(key="awaits").enqueue(owner, seconds=AWAITS)
            block.with_options(key="blocks").enqueue(owner, seconds=5 * LEASE.total_seconds())
            brief.with_options(key="later", delay=5 * LEASE).enqueue(owner)
        held_early = (
            "SELECT count(*) FROM relevo.jobs WHERE key = 'later' AND state = 'running'"
            " AND available_at > clock_timestamp()"
        )

        def is_over() -> bool:
            assert value(owner, held_early) == 0, "a job was held before it was due"
            return value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs")

        wait_until(is_over, AWAITS + BOUND, "all of them")


def assert_once(dsn: str, key: str) -> int:
    """One start, no loss, completed; answers the job."""
    job_id = query(dsn, "SELECT id FROM relevo.jobs WHERE key = %s", key)[0][0]
    with psycopg.connect(dsn) as connection:
        row = job_row(connection, job_id)
        assert (row["state"], row["attempt"], row["losses"]) == ("completed", 1, 0)
        assert history(connection, job_id) == []
    assert [start for start in effects(dsn, "began") if start[0] == job_id] == [(job_id, 1)]
    return job_id


def test_f011_a_long_job_is_started_once_though_beats_are_lost(fleet: str) -> None:
    """One beat may be lost. Red when beats come every half lease, or more seldom."""
    assert_once(fleet, "awaits")


def test_f012_a_handler_that_blocks_its_loop_for_five_leases_is_started_once(fleet: str) -> None:
    """Heartbeats have a thread of their own. Red when they run on the handlers' loop."""
    assert_once(fleet, "blocks")


def test_f015_a_job_that_runs_longer_than_others_may_is_not_taken_for_stuck(fleet: str) -> None:
    """The worker's lease alone says what is lost. Red when how long a job runs says so.

    `field.brief` of the same fleet may run for 1 s; this one runs for five leases.
    """
    assert brief.kind.timeout < 2 * LEASE < timedelta(seconds=AWAITS) < long.kind.timeout

    job_id = assert_once(fleet, "awaits")

    ran = query(fleet, "SELECT finished_at - started_at FROM relevo.jobs WHERE id = %s", job_id)
    assert ran[0][0] >= timedelta(seconds=AWAITS - 1)


def test_f016_a_job_due_in_five_leases_is_taken_when_it_is_due(fleet: str) -> None:
    """What is not due is in nobody's hands. Red when workers hold it until then."""
    job_id = assert_once(fleet, "later")

    late = query(fleet, "SELECT started_at - available_at FROM relevo.jobs WHERE id = %s", job_id)
    assert timedelta(0) <= late[0][0] <= timedelta(seconds=1) + BUSY
