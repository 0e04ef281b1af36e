"""Every point of what is on the way of every job: whatever fails there, nothing is lost or doubled.

The whole enumeration is `PYTHONPATH=tests python -m faults nightly R3`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import relevo
from faults.crash.enumerate import Enumeration, Listing, count_points, list_all, measure
from faults.crash.points import Point
from faults.crash.scenarios import SCENARIOS
from faults.crash.server import Server, a_server
from faults.crash.ways import Way
from faults.crash.world import Scenario, World
from faults.measured import story
from faults.sizes import Size
from relevo.db.statements import parse_statements

SEED = 20261130

SOURCE = Path(relevo.__file__).parent.parent
WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE|nextval|SAVEPOINT|LOCK)\b")

NOT_INTERRUPTED = {
    # A person's, who sees whether it was done and may do it again; no job is changed by it.
    *("adopt_identity", "set_mode", "insert_tenant"),
    # The benchmark's own.
    *("take_job_id", "erase_jobs"),
    # Cycles that are drafts: scenarios begin when there is something to activate. What else
    # happens to them, and the end of a backend in between, is R10.
    *("create_cycle", "hold_cycle", "delete_draft", "generate_evaluations"),
    *("add_participants", "add_everyone", "add_peers", "remove_participants"),
    *("begin_preflight", "undo_preflight", "end_preflight"),
    # The import of people, one transaction that enqueues nothing.
    *("upsert_people", "close_manager_edges", "open_manager_edges"),
}
"""What writes and is in no scenario, and why; a new statement is in one, or is named here."""


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


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> list[Listing]:
    """What every scenario consists of."""
    return list_all(SCENARIOS, tmp_path_factory.mktemp("crash") / "lists")


@pytest.mark.timeout(120)
def test_every_scenario_meets_every_statement_that_the_server_logs(
    listings: list[Listing],
) -> None:
    assert {listing.name for listing in listings} == {scenario.name for scenario in SCENARIOS}
    assert [word for listing in listings for word in listing.differences()] == []
    assert all(listing.points for listing in listings)


@pytest.mark.timeout(120)
def test_whatever_writes_is_interrupted_or_named_here(listings: list[Listing]) -> None:
    met = {point.name for listing in listings for point in listing.points}

    texts = (file.read_text("utf-8") for file in SOURCE.rglob("*.sql"))
    writers = {
        name
        for text in texts
        if "\n-- name: " in f"\n{text}"  # migrations have none
        for name, statement in parse_statements(text).items()
        if WRITES.search(statement.sql)
    }

    assert writers & met
    assert writers - met == NOT_INTERRUPTED


def test_a_statement_of_several_scenarios_is_one_distinct_point() -> None:
    begin, claim = Point("claim", "BEGIN"), Point("claim", "claim_jobs")
    settle = Point("settle", "BEGIN")
    first = Listing("first", [begin, claim, begin], [])
    second = Listing("second", [begin, settle], [])

    assert count_points([first, second]) == {"points": 5, "distinct": 3, "statements": 2}


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
