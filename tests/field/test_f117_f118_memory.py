"""F-117 and F-118: what a long-lived process keeps, after many jobs and through an outage.

Mechanism: nothing is kept per job. A start leaves with its answer, an answer when it is written,
and an enqueue is a statement of its caller's, which fails and is held nowhere.
RELEVO_TEST_SCALE=20 brings 200,000 jobs, =30 an outage of five minutes.
"""

import gc
import os
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from field_children import BOUND, BUSY
from own_server import a_mute_server, an_own_server
from psycopg.conninfo import make_conninfo

from factories import some_jobs, value
from relevo import Context, Relevo
from workers import running, scaled, wait_until

MIB = 1024 * 1024
JOBS = scaled(10_000, 200_000)
WARM = JOBS // 10
OBJECTS = 2_000
"""So many more objects are caches and chance; one for each job would be four times as many."""
AWAY = float(scaled(10, 300))
PATIENCE = timedelta(seconds=2)
"""The time-out of the application's connect, the least that PostgreSQL's own library takes."""

app = Relevo()


@app.job("test.work")
async def nothing(ctx: Context) -> None:
    """End at once."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What this process holds at a moment of rest."""

    bytes: int
    objects: int
    threads: frozenset[str]
    handles: int


def footprint() -> Footprint:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Footprint(
        pages * os.sysconf("SC_PAGE_SIZE"),
        len(gc.get_objects()),
        # A timer guards one answer and is gone a moment later.
        frozenset(
            thread.name
            for thread in threading.enumerate()
            if not isinstance(thread, threading.Timer)
        ),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208 -- counts, nothing is opened
    )


def work_off(owner: psycopg.Connection, jobs: int) -> Footprint:
    """Let the worker run so many jobs, and look when it rests."""
    ended = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
    all_ended = value(owner, ended) + jobs
    some_jobs(owner, jobs)
    wait_until(lambda: value(owner, ended) == all_ended, BOUND + jobs / 500, "the jobs")
    wait_until(lambda: value(owner, "SELECT bool_and(idle) FROM relevo.workers"), BOUND)
    return footprint()


@pytest.mark.timeout(900)
def test_f117_ten_times_as_many_jobs_leave_nothing_more_behind(database: str) -> None:
    """Nothing is kept per job. Red when a list, a task or a connection of each job stays."""
    connections = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE 'relevo %'"
    )
    with (
        psycopg.connect(database, autocommit=True) as owner,
        running(app, database, concurrency=50),
    ):
        first, connected = work_off(owner, WARM), value(owner, connections)
        last = work_off(owner, JOBS - WARM)

        assert value(owner, connections) == connected
    assert last.threads == first.threads
    assert last.handles == first.handles
    assert last.objects - first.objects < OBJECTS
    assert last.bytes - first.bytes < 20 * MIB


def is_refused_in_time(dsn: str) -> bool:
    """Whether an enqueue raises, within the time-out of its connection."""
    asked_at = time.monotonic()
    with pytest.raises(psycopg.OperationalError), psycopg.connect(dsn) as connection:
        nothing.enqueue(connection)
    return timedelta(seconds=time.monotonic() - asked_at) < PATIENCE + BUSY


@pytest.mark.timeout(900)
def test_f118_nothing_is_kept_while_the_server_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """An enqueue fails and is held nowhere. Red when something buffers until the server returns."""
    caplog.set_level("CRITICAL")  # what a test's own log keeps is no buffer of the worker's
    with an_own_server() as server, running(app, server.dsn, poll=timedelta(seconds=1)):
        with psycopg.connect(server.dsn, autocommit=True) as owner:
            work_off(owner, 100)
        impatient = make_conninfo(server.dsn, connect_timeout=PATIENCE.seconds)
        refused = 0
        # Whoever is there and says nothing takes the whole time-out, who is not there none of it.
        with a_mute_server(server.stop_at_once()):
            assert is_refused_in_time(impatient)
        stopped_at = time.monotonic()
        before = None
        while time.monotonic() - stopped_at < AWAY:
            assert is_refused_in_time(impatient)
            refused += 1
            # Not from the first second on: what fails for the first time imports and caches.
            if before is None and time.monotonic() - stopped_at > AWAY / 4:
                before = footprint()
        after = footprint()
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as owner:
            nothing.enqueue(owner)
            wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"), BOUND)
            kept = value(owner, "SELECT count(*) FROM relevo.jobs")

    assert before is not None
    assert refused > 3
    assert kept == 101
    assert after.threads == before.threads
    assert abs(after.bytes - before.bytes) < 10 * MIB
    assert after.objects - before.objects < OBJECTS
