"""Limits are set and removed on every kind of connection, in the caller's transaction."""

from collections.abc import Iterator

import psycopg
import pytest
from driver_kinds import KINDS, Adapter

from factories import QUEUE, a_worker, claim_some, some_jobs, value
from relevo import NotInTransaction
from relevo.engine.limits import list_limits, remove_limit, set_limit
from relevo.model.scope import Scope
from rolled_back import shared_database

__all__ = ["shared_database"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def observer(shared_database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shared_database, autocommit=True) as connection:
        yield connection
        connection.execute("UPDATE relevo.workers SET expires_at = now()")
        connection.execute("DELETE FROM relevo.workers")
        connection.execute("DELETE FROM relevo.ended_workers")
        connection.execute("DELETE FROM relevo.jobs")
        connection.execute("DELETE FROM relevo.limits")
        connection.execute("DELETE FROM relevo.permits")


def opened(kind: str, dsn: str, *, autocommit: bool) -> Adapter:
    adapter = KINDS[kind](dsn, autocommit=autocommit)
    if not autocommit:
        adapter.begin()
    return adapter


def test_a_limit_is_set_and_removed_with_the_callers_commit(
    kind: str, shared_database: str, observer: psycopg.Connection
) -> None:
    worker = a_worker(observer)
    some_jobs(observer, 5)
    adapter = opened(kind, shared_database, autocommit=False)
    try:
        adapter.run(set_limit(Scope.QUEUE, QUEUE, 2, actor="ada"))
        uncommitted = value(observer, "SELECT count(*) FROM relevo.limits")
        adapter.commit()
        claimed = len(claim_some(observer, worker))
        adapter.begin()
        # First, as it has to be above READ COMMITTED.
        removed = adapter.run(remove_limit(Scope.QUEUE, QUEUE))
        left = adapter.run(list_limits())
        adapter.rollback()
        (standing,) = adapter.run(list_limits())
    finally:
        adapter.close()

    assert (uncommitted, claimed, removed, left, standing.used) == (0, 2, True, [], 2)
    assert value(observer, "SELECT count(*) FROM relevo.limits") == 1


def test_a_connection_that_commits_by_itself_sets_no_limit(
    kind: str, shared_database: str, observer: psycopg.Connection
) -> None:
    adapter = opened(kind, shared_database, autocommit=True)
    try:
        for operation in (set_limit(Scope.QUEUE, QUEUE, 2), remove_limit(Scope.QUEUE, QUEUE)):
            with pytest.raises(NotInTransaction):
                adapter.run(operation)
    finally:
        adapter.close()

    assert value(observer, "SELECT count(*) FROM relevo.limits") == 0
