"""A job takes all its permits or none, lanes take turns, and no clock keeps one for ever."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_job,
    a_tenant,
    a_worker,
    claim_some,
    settle_some,
    some_jobs,
    value,
)
from limiting import connection, in_lane, know, limit, ordered
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.claim import MOVED_AT_ONCE
from relevo.engine.limits import list_limits
from relevo.model.ids import lane_of
from relevo.model.ring import Ring
from relevo.model.scope import Scope

__all__ = ["connection"]

pytestmark = pytest.mark.core

OTHER = "test.other"
LANE = lane_of(KIND, None)


def used(connection: psycopg.Connection) -> dict[tuple[str, str], int]:
    return {(row.scope, row.measure.value): row.used for row in run(connection, list_limits())}


def test_a_job_that_lacks_one_permit_uses_up_none_of_the_others(
    connection: psycopg.Connection,
) -> None:
    """Red when what a job could have is taken before it is known whether it gets all."""
    worker = a_worker(connection)
    limit(connection, Scope.LANE, KIND, 1, within=timedelta(hours=1))
    limit(connection, Scope.QUEUE, QUEUE, 1)
    jobs = [in_lane(connection, key) for key in "abc"]

    started = []
    for _ in jobs:
        claimed = claim_some(connection, worker)
        started += [job.id for job in claimed]
        assert used(connection) == {("lane", "starts"): len(started), ("queue", "running"): 1}
        settle_some(connection, worker, claimed)

    assert sorted(started) == jobs


def test_a_session_that_has_ended_uses_up_no_start(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 3, within=timedelta(hours=1))
    some_jobs(connection, 10)
    assert len(claim_some(connection, worker, 1)) == 1

    assert claim_some(connection, 999_999) == []

    assert used(connection) == {("queue", "starts"): 1}
    assert len(claim_some(connection, worker)) == 2


@pytest.mark.parametrize(("most", "slots"), [(1, 100), (100, 1)], ids=["limit", "slot"])
def test_lanes_take_turns_where_one_starts_at_a_time(
    connection: psycopg.Connection, most: int, slots: int
) -> None:
    """Red when the claim forgets in which order its lanes were given."""
    worker, ring = a_worker(connection), Ring()
    keys = [str(n) for n in range(30)]
    limit(connection, Scope.QUEUE, QUEUE, most)
    for key in keys * 2:
        in_lane(connection, key)

    order = []
    for _ in range(2 * len(keys)):
        claimed = claim_some(connection, worker, slots, ring=ring)
        order += [job.lane for job in claimed]
        settle_some(connection, worker, claimed)

    assert len(order) == 2 * len(keys)
    assert len(set(order[: len(keys)])) == len(keys)


def test_tenants_take_turns_at_a_limit_of_their_queue(connection: psycopg.Connection) -> None:
    """Red when a flood's lane is asked first every time."""
    worker, ring = a_worker(connection), Ring()
    tenants = [a_tenant(connection) for _ in range(20)]
    limit(connection, Scope.QUEUE, QUEUE, 2)
    some_jobs(connection, 2000)
    for tenant in tenants:
        some_jobs(connection, 1, tenant_id=tenant)

    started: Counter[object] = Counter()
    while len(started) < 21:
        claimed = claim_some(connection, worker, 2, ring=ring)
        assert claimed
        started.update(job.tenant_id for job in claimed)
        settle_some(connection, worker, claimed)

    assert started[DEFAULT_TENANT] <= 25


def test_every_limit_of_a_tenant_has_its_own_name_or_that_of_each(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    mine, other = a_tenant(connection), a_tenant(connection)
    limit(connection, Scope.TENANT, "*", 2)
    limit(connection, Scope.TENANT, "*", 5, within=timedelta(hours=1))
    limit(connection, Scope.TENANT, str(mine), 4)
    for tenant in (mine, other):
        some_jobs(connection, 20, tenant_id=tenant)

    started: Counter[object] = Counter()
    for _ in range(6):
        claimed = claim_some(connection, worker)
        for tenant, count in Counter(job.tenant_id for job in claimed).items():
            assert count <= (4 if tenant == mine else 2)
        started.update(job.tenant_id for job in claimed)
        settle_some(connection, worker, claimed)

    # The limit of starts is that of each tenant: the own one is another measure.
    assert started == {mine: 5, other: 5}


def test_a_lane_is_passed_by_while_its_limit_is_used_up_and_found_when_it_is_not(
    connection: psycopg.Connection,
) -> None:
    worker, ring = a_worker(connection), Ring()
    limit(connection, Scope.LANE, KIND, 1)
    for key in ("a", "b"):
        for _ in range(3):
            in_lane(connection, key)
    know(ring, lane_of(KIND, "a"))
    first = claim_some(connection, worker, ring=ring)

    none = claim_some(connection, worker, ring=ring)
    ring.rest()
    second = claim_some(connection, worker, ring=ring)
    settle_some(connection, worker, first)
    ring.rest()
    third = claim_some(connection, worker, ring=ring)

    assert [job.lane for job in first] == [lane_of(KIND, "a")]
    assert none == []
    assert [job.lane for job in second] == [lane_of(KIND, "b")]
    assert [job.lane for job in third] == [lane_of(KIND, "a")]


def test_starts_go_on_when_the_databases_clock_has_gone_back(
    connection: psycopg.Connection,
) -> None:
    """Red when a start that lies ahead is waited for: an hour for a clock that went back one."""
    worker = a_worker(connection)
    limit(connection, Scope.KIND, KIND, 3, within=timedelta(minutes=1))
    some_jobs(connection, 10, lane=LANE)
    settle_some(connection, worker, claim_some(connection, worker))
    connection.execute("UPDATE relevo.permits SET taken_at = taken_at + interval '1 hour'")

    taken = claim_some(connection, worker)

    assert len(taken) == 3


def test_a_permit_counts_until_its_job_ends_whatever_the_clock_says(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.KIND, KIND, 3)
    some_jobs(connection, 10, lane=LANE)
    claimed = claim_some(connection, worker)
    for days in (-400, 400):
        connection.execute(
            "UPDATE relevo.permits SET taken_at = now() + make_interval(days => %s)", [days]
        )
        assert claim_some(connection, worker) == []
    settle_some(connection, worker, claimed[:1])

    assert len(claim_some(connection, worker)) == 1


def test_jobs_of_the_past_and_of_the_future_take_permits_when_they_are_due(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.KIND, KIND, 3)
    some_jobs(connection, 2, lane=LANE, available_at="9000-01-01")
    some_jobs(connection, 2, lane=LANE, available_at="0001-02-03")

    assert len(claim_some(connection, worker)) == 2
    assert value(connection, "SELECT count(*) FROM relevo.permits") == 2


def test_an_order_declared_beside_a_limit_of_its_lanes_keeps_both(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ordered(connection)
    limit(connection, Scope.LANE, KIND, 5)
    limit(connection, Scope.LANE, KIND, 2, within=timedelta(hours=1))
    jobs = [in_lane(connection, "a") for _ in range(5)]

    started = []
    for _ in range(5):
        claimed = claim_some(connection, worker)
        started.append([job.id for job in claimed])
        settle_some(connection, worker, claimed)

    assert started == [[jobs[0]], [jobs[1]], [], [], []]


def test_a_job_that_comes_without_its_lane_starts_with_the_claim_that_finds_it(
    connection: psycopg.Connection,
) -> None:
    """Red when it has to wait a second for its lane, and for a second walk after that."""
    worker, ring = a_worker(connection), Ring()
    limit(connection, Scope.KIND, KIND, 10)

    started = []
    for _ in range(5):
        a_job(connection)
        ring.rest()
        claimed = claim_some(connection, worker, ring=ring)
        started.append(len(claimed))
        settle_some(connection, worker, claimed)

    assert started == [1] * 5


def test_a_flood_that_comes_without_its_lane_holds_up_no_other_tenant(
    connection: psycopg.Connection,
) -> None:
    """Red when the first tenant's jobs are given their lane before those of the others."""
    worker, ring = a_worker(connection), Ring()
    other = a_tenant(connection, UUID(int=2**127))
    limit(connection, Scope.KIND, KIND, 100)
    some_jobs(connection, 3 * MOVED_AT_ONCE)
    some_jobs(connection, 1, tenant_id=other)

    claimed = claim_some(connection, worker, ring=ring)

    assert other in {job.tenant_id for job in claimed}
