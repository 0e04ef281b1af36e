"""F-020 and F-021: the listener dies, or the whole server does.

Mechanisms: the supervisor starts a loop again whatever ended it, at waits that double up to
a bound and differ by chance, so nobody spins and not all knock at once; a listener looks at
once when it listens again, and a poll of 30 s is not waited for.
"""

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from field_children import BUSY
from own_server import Doorman, OwnServer, an_own_server

from child_jobs import note, slow
from factories import job_row, value
from relevo.loops import heartbeat, settler, supervise
from workers import LEASE, SCALE, a_child, effects, make_effects, terminate, wait_until

BOUND = timedelta(seconds=5)

FULL = 30.0
DOWN = min(FULL, 10.0 * SCALE)
LOOPS = 3
"""Claim, listen and rescue ask an idle server something; prune does once a minute."""

SETTLED = 5.0
"""The first seconds of an outage, in which waits are still short."""

MOST_KNOCKS = 2.0
MOST_OF_A_CORE = 0.1


def most_tries(first: float, at_most: float, seconds: float) -> int:
    """How often one loop may try in an outage: waits double, and chance takes off a quarter."""
    tries, wait, at = 0, first, 0.75 * first
    while at <= seconds:
        tries += 1
        wait = min(wait * 2, at_most)
        at += 0.75 * wait
    return tries


def most_knocks(seconds: float) -> int:
    """How often an idle worker may try."""
    lease = LEASE.total_seconds()
    first = min(heartbeat.RECONNECT_AFTER, lease / 3)
    at_most = min(heartbeat.RECONNECT_AT_MOST, lease * 0.75)
    each = most_tries(supervise.RESTART_AFTER, supervise.RESTART_AT_MOST, seconds)
    return LOOPS * each + most_tries(first, at_most, seconds)


@pytest.fixture
def server_of_its_own() -> Iterator[OwnServer]:
    with an_own_server() as server:
        make_effects(server.dsn)
        yield server


def is_idle(dsn: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as owner:
        return bool(value(owner, "SELECT bool_or(idle) FROM relevo.workers"))


def start_one(dsn: str) -> timedelta:
    """Enqueue a job; answer how long it waited for its start, by the server's clock."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        job = note.enqueue(owner)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 60)
        row = job_row(owner, job.id)
        assert row["attempt"] == 1
        waited: timedelta = row["started_at"] - row["created_at"]
        return waited


def seconds_of_cpu(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


class Yardstick:
    """How much longer the same work takes now, in seconds of CPU, than at its best.

    A virtual machine whose host is busy books the time that it was not let run to whoever
    was running, so seconds of CPU grow. What a process used is divided by this.
    """

    def __init__(self) -> None:
        self._best = min(self._work() for _ in range(50))
        self._now: list[float] = []

    @staticmethod
    def _work() -> float:
        begun = time.thread_time()
        sum(range(50_000))
        return time.thread_time() - begun

    def sleep(self, seconds: float) -> None:
        """Let time pass, and work a little now and then."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._now.append(self._work())
            time.sleep(0.05)

    def stretch(self) -> float:
        return max(1.0, sum(self._now) / len(self._now) / self._best)


def test_f020_f021_an_idle_worker_outlives_its_listener_and_its_server_without_a_spin(
    server_of_its_own: OwnServer,
) -> None:
    """Red when a loop ends with its connection, or tries again at once or at an even pace.

    Waits are short at first, so an outage of ten seconds may see more tries a second than the
    thirty of the case: each is held to what its waits let through from the first second on.
    """
    server = server_of_its_own
    with a_child(server.dsn, "field", poll=30) as child:
        wait_until(lambda: is_idle(server.dsn), 60)

        wait_until(lambda: terminate(server.dsn, "relevo listen"), 60)
        after_the_cut = start_one(server.dsn)

        wait_until(lambda: is_idle(server.dsn), 60)
        yardstick = Yardstick()
        cpu, begun_at = seconds_of_cpu(child.pid), time.monotonic()
        with Doorman(server.stop_at_once()) as doorman:
            yardstick.sleep(DOWN / 2)  # the outage itself
            doorman.is_starting = True
            yardstick.sleep(DOWN / 2)
            busy, lasted = seconds_of_cpu(child.pid) - cpu, time.monotonic() - begun_at
        server.start()
        after_the_restart = start_one(server.dsn)

        assert child.is_alive
    assert after_the_cut <= BOUND + BUSY
    assert after_the_restart <= BOUND + BUSY
    assert busy / yardstick.stretch() < MOST_OF_A_CORE * lasted, (
        f"{busy} s of CPU, stretched {yardstick.stretch()} times, {len(doorman.knocks)} knocks"
    )
    settled = [at for at in doorman.knocks if at > begun_at + SETTLED]
    assert 0 < len(settled) <= MOST_KNOCKS * (lasted - SETTLED)
    assert len(doorman.knocks) <= most_knocks(lasted)
    assert most_knocks(FULL) <= MOST_KNOCKS * FULL


def test_f021_an_answer_that_cannot_be_written_is_tried_more_and_more_seldom(
    server_of_its_own: OwnServer,
) -> None:
    """Red when the settler asks a server that is away at an even pace, five times a second."""
    server = server_of_its_own
    with a_child(server.dsn, "field") as child:
        with psycopg.connect(server.dsn, autocommit=True) as owner:
            slow.enqueue(owner, seconds=60.0)
        wait_until(lambda: effects(server.dsn, "began"), 60)
        begun_at = time.monotonic()
        with Doorman(server.stop_at_once()):
            # The job goes back when its lease is over; that is the answer to be written.
            time.sleep(DOWN)
            lasted = time.monotonic() - begun_at
            tries = child.end().count("answers could not be written yet")

    assert 0 < tries <= most_tries(settler.RETRY_AFTER, settler.RETRY_AT_MOST, lasted)
