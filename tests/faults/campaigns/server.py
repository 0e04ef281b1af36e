"""R4 and R5: the whole server ends at once under load, by its postmaster or by a dead backend."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from faults.campaigns.ground import Ground, a_ground, a_server, await_that
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from faults.sizes import Size, numbers

WORKERS = 3
BACKLOG = 120
JOBS_OF_A_FAULT = 300
FAULTS_OF_A_ROUND = 50

Fault = Callable[[Ground], None]


def measure_stops(size: Size, seed: int, directory: Path) -> Measured:
    """R4: stop the server at once as often as the size says."""
    return measure_faults("stops", stop, numbers("R4", size)["stops"], seed, directory)


def measure_kills(size: Size, seed: int, directory: Path) -> Measured:
    """R5: kill a backend that has nothing to do with the engine as often as the size says."""
    return measure_faults("kills", kill, numbers("R5", size)["kills"], seed, directory)


def measure_faults(what: str, fault: Fault, times: int, seed: int, directory: Path) -> Measured:
    """End a server so often that keeps what it acknowledged."""
    verdict = Verdict()
    with a_server(is_durable=True) as server:
        for number, begin in enumerate(range(0, times, FAULTS_OF_A_ROUND)):
            share = min(FAULTS_OF_A_ROUND, times - begin)
            with a_ground(server, directory / str(number), seed + number) as ground:
                _end_some(ground, what, fault, share, verdict)
    return verdict.measured()


def _end_some(ground: Ground, what: str, fault: Fault, times: int, verdict: Verdict) -> None:
    jobs = times * JOBS_OF_A_FAULT
    ground.begin(WORKERS, backlog=BACKLOG, jobs=jobs)
    for number in range(times):
        ground.run_until(jobs * (2 * number + 1) // (2 * times + 1))
        ground.pause(0.2)
        fault(ground)
        verdict.counts[what] += 1
    ground.finish()
    verdict.judge(ground)


def stop(ground: Ground) -> None:
    """Stop the server at once, and start it after a while of which workers know nothing."""
    ground.server.stop_at_once()
    ground.pause(1.0)
    ground.server.start()


def kill(ground: Ground) -> None:
    """Kill a backend of somebody else, which makes the server end all others and recover."""
    with psycopg.connect(ground.dsn) as unrelated, psycopg.connect(ground.dsn) as other:
        os.kill(unrelated.info.backend_pid, signal.SIGKILL)
        # Until the server has seen it, it goes on for all others.
        await_that(lambda: not _is_alive(other), "the end of all sessions")
        unrelated.close()
    await_that(lambda: is_answering(ground.dsn), "the server's return")


def _is_alive(connection: psycopg.Connection) -> bool:
    with suppress(psycopg.OperationalError):
        connection.execute("SELECT 1")
        return True
    connection.close()
    return False


def is_answering(dsn: str) -> bool:
    """Whether a session can begin."""
    with suppress(psycopg.OperationalError), psycopg.connect(dsn, connect_timeout=5):
        return True
    return False
