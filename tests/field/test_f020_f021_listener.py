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
from own_server import Doorman, OwnServer, an_own_server

from child_jobs import note
from factories import job_row, value
from workers import SCALE, a_child, make_effects, terminate, wait_until

BOUND = timedelta(seconds=5)
BUSY = timedelta(seconds=2)
"""What a machine with two busy cores may add to a bound that is told by the server's clock."""

DOWN = min(30.0, 10.0 * SCALE)
SETTLED = 5.0
"""The first seconds of an outage, in which waits are still short."""

MOST_KNOCKS = 2.0
MOST_OF_A_CORE = 0.1


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


def test_an_idle_worker_outlives_its_listener_and_its_server_without_a_spin(
    server_of_its_own: OwnServer,
) -> None:
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
            knocks = [at for at in doorman.knocks if at > begun_at + SETTLED]
        server.start()
        after_the_restart = start_one(server.dsn)

        assert child.is_alive
    assert after_the_cut <= BOUND + BUSY
    assert after_the_restart <= BOUND + BUSY
    assert busy / yardstick.stretch() < MOST_OF_A_CORE * lasted, (
        f"{busy} s of CPU, stretched {yardstick.stretch()} times, {len(doorman.knocks)} knocks"
    )
    assert 0 < len(knocks) <= MOST_KNOCKS * (lasted - SETTLED)
