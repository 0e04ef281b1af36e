"""Every point of what is on the way of every job: whatever fails there, nothing is lost or doubled.

The whole enumeration is `PYTHONPATH=tests python -m faults nightly R3`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.crash.enumerate import Enumeration, measure
from faults.crash.points import Point
from faults.crash.server import Server, a_server
from faults.crash.ways import Way
from faults.crash.world import Scenario, World
from faults.measured import story
from faults.sizes import Size

SEED = 20261130


@pytest.fixture(scope="module")
def crash_server() -> Iterator[Server]:
    with a_server(is_durable=False) as server:
        yield server


@pytest.mark.timeout(300)
def test_no_point_of_enqueue_activation_claim_and_settle_breaks_a_promise(tmp_path: Path) -> None:
    """F-082. A cycle and its jobs are one transaction: red when either can be without the other."""
    """F-082. Changes and their jobs are one transaction: red when it is two, as shown below."""
    measured = measure(Size.PULL_REQUEST, SEED, tmp_path)

    assert measured.is_clean, story(measured)
    assert measured.counts["points"] >= 50
    assert measured.counts["runs"] >= measured.counts["points"] * 3


def _one_transaction_in_two(world: World) -> None:
    """What a caller would do who believes that two commits are one."""
    job = world.kinds.kinds["crash.outside"]
    connection = world.connect()
    connection.set_autocommit(True)
    with world.counting(), world.told(["a", "b"], kind="crash.outside") as enqueued:
        enqueued.extend(job.enqueue(connection, ref=ref) for ref in ("a", "b"))


def test_a_caller_who_commits_twice_is_found_out(crash_server: Server, tmp_path: Path) -> None:
    scenario = Scenario("two commits", _one_transaction_in_two)

    runs = Enumeration(crash_server, tmp_path).fail_everywhere(scenario, [Way.CLIENT_KILLED])

    assert [run.number for run in runs] == [1, 2]
    assert [{found.invariant for found in run.violations} for run in runs] == [set(), {"I1"}]


def _evade(world: World) -> None:
    """Send something behind the driver's back."""
    connection = world.connect()
    connection.set_autocommit(True)
    with world.counting():
        connection.execute("SELECT 1")
        connection.pgconn.exec_(b"SELECT 2")


def test_a_statement_that_passes_no_point_is_found_in_the_log(
    crash_server: Server, tmp_path: Path
) -> None:
    listing = Enumeration(crash_server, tmp_path).list_points(Scenario("evasion", _evade))

    assert listing.points == [Point("caller", "SELECT 1")]
    assert listing.logged == [Point("caller", "SELECT 1"), Point("caller", "SELECT 2")]
    assert listing.differences() == ["evasion: only the server: caller SELECT 2"]
