"""Set limits in tests, and stop a claim where it may go wrong: between its look and its locks."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from factories import KIND, a_job, a_kind, value
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.db.statements import Statement
from relevo.engine.limits import declare_limits, set_limit
from relevo.model.ids import lane_of
from relevo.model.lanes import DueLane
from relevo.model.ring import Ring
from relevo.model.scope import Scope
from relevo.store.jobs import limited as limited_rows

ENGINES_LEVEL = r"-c default_transaction_isolation=read\ committed"
GATE = 4711
SEEN = "WHERE n.is_whole"
"""Where `claim_limited` has seen which permits are free and has locked none of them."""


@pytest.fixture
def connection(shared_database: str) -> Iterator[psycopg.Connection]:
    """A transaction that is rolled back, at the level of the engine's own whatever the default."""
    with psycopg.connect(shared_database) as opened:
        opened.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        yield opened
        opened.rollback()


@pytest.fixture
def sessions(database: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Connections to the test's database as the engine's, each statement committed by itself."""
    opened: list[psycopg.Connection] = []

    def connect() -> psycopg.Connection:
        opened.append(psycopg.connect(database, autocommit=True, options=ENGINES_LEVEL))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def limit(connection: psycopg.Connection, scope: Scope, name: str, most: int, **more: Any) -> None:
    """Set a limit and commit it, or leave it to the transaction that is open."""
    with connection.transaction():
        run(connection, set_limit(scope, name, most, **more))


def ordered(connection: psycopg.Connection) -> None:
    """Declare the tests' kind as one whose lanes run one job after the other."""
    with connection.transaction():
        run(connection, declare_limits([a_kind(ordered=True)]))


def in_lane(connection: psycopg.Connection, key: str, **columns: Any) -> int:
    """A due job with a lane key."""
    return a_job(connection, lane=lane_of(KIND, key), lane_key=key, **columns)


def know(ring: Ring, *lanes: UUID, kind: str = KIND) -> None:
    """Have a worker remember lanes and limits, as after a walk that has just ended."""
    now = time.monotonic()
    ring.end_look(now, is_limited=True)
    place = (datetime(1, 1, 3, tzinfo=UTC), 1)
    due = [DueLane((DEFAULT_TENANT, lane), kind, 0, place) for lane in lanes]
    ring.end_walk(due, len(due) + 1, now, 1.0)


def running(connection: psycopg.Connection) -> int:
    """How many jobs run."""
    return value(connection, "SELECT count(*) FROM relevo.jobs WHERE worker IS NOT NULL")


def wait_for_a_waiter(connection: psycopg.Connection, future: Future[Any], kind: str = "") -> None:
    """Wait until some session of the database waits for a lock, or the work is done."""
    while not future.done() and not value(
        connection,
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype LIKE %s || '%%'"
        " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())",
        kind,
    ):
        time.sleep(0.01)


@contextmanager
def stopped_after_its_look(
    sessions: Callable[[], psycopg.Connection],
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[], object],
) -> Iterator[Future[Any]]:
    """Run a claim in a thread until it has seen which permits are free, and go on at the end."""
    plain = limited_rows.STATEMENTS["claim_limited"]
    assert plain.sql.count(SEEN) == 1
    paused = plain.sql.replace(
        SEEN, f"{SEEN} AND (SELECT pg_advisory_xact_lock_shared({GATE}) IS NOT NULL)"
    )
    keeper = sessions()
    keeper.execute("SELECT pg_advisory_lock(%s)", [GATE])
    monkeypatch.setitem(
        limited_rows.STATEMENTS, "claim_limited", Statement("claim_limited", paused)
    )
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        wait_for_a_waiter(keeper, future, "advisory")
        assert not future.done(), future.result()
        monkeypatch.setitem(limited_rows.STATEMENTS, "claim_limited", plain)
        try:
            yield future
        finally:
            keeper.execute("SELECT pg_advisory_unlock(%s)", [GATE])
            future.result(30)
