"""F-019: the database traffic of one worker is cut for three leases, and returns.

Mechanism: a lease that cannot be proved is not relied on; what runs under it is cancelled, nothing
starts, and the heartbeat opens a new session as soon as it can.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from field_children import BOUND, a_field_child, marks
from field_jobs import app, brief, first_hangs

from factories import job_row, value
from faults.campaigns.ground import Server, a_server
from faults.campaigns.network import through
from faults.proxy import Fault, Kind, Proxy, a_proxy
from workers import LEASE, make_effects, query, running, wait_until


@pytest.fixture
def tcp_server() -> Iterator[Server]:
    with a_server(is_durable=False, is_on_network=True) as server:
        yield server


@pytest.fixture
def proxy(tcp_server: Server) -> Iterator[Proxy]:
    with a_proxy(tcp_server.port) as proxy:
        yield proxy


def test_f019_a_worker_that_is_cut_off_cancels_what_it_runs_and_comes_back_by_itself(
    tcp_server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    """A lease has to be proved. Red when the run loop takes no notice of failing heartbeats."""
    dsn = tcp_server.create("cut_off", "template_faults")
    make_effects(dsn)
    trace = tmp_path / "cancelled"
    lease = LEASE.total_seconds()
    with (
        psycopg.connect(dsn, autocommit=True) as owner,
        a_field_child(through(dsn, proxy), "cut", lease=lease) as cut,
    ):
        job = first_hangs.enqueue(owner, seconds=600.0, trace=str(trace))
        wait_until(lambda: marks(dsn, "began"), BOUND)
        with running(app, dsn, name="other"):
            # Nothing is acknowledged, and who connects meanwhile fares no better.
            proxy.inflict(Fault(Kind.BLACKHOLE, lasts=3 * lease))
            wait_until(trace.exists, BOUND, "the handler's cancellation")
            wait_until(lambda: job_row(owner, job.id)["state"] == "completed", BOUND)
        query(dsn, "DELETE FROM relevo.workers WHERE name = 'cut' AND expires_at < now()")
        alive = (
            "SELECT count(*) FROM relevo.workers"
            " WHERE name = 'cut' AND expires_at > clock_timestamp()"
        )
        wait_until(lambda: value(owner, alive), BOUND, "a session of the one that was cut off")
        later = brief.enqueue(owner)
        wait_until(lambda: job_row(owner, later.id)["state"] == "completed", BOUND)
        assert cut.is_alive
        pid, log = cut.pid, cut.end()

    assert trace.read_text() == str(pid)
    assert "lease cannot be proved" in log
    assert [start[:2] for start in marks(dsn, "began")] == [(job.id, 1), (job.id, 2), (later.id, 1)]
    assert marks(dsn, "done") == [(job.id, 2, os.getpid()), (later.id, 1, pid)]
