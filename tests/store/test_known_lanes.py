"""A walk that is told of lanes meets the same ones, and does not read what they leave behind."""

from collections.abc import Sequence
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import KIND, QUEUE, a_job, a_worker, claim_some, settle_some, some_jobs
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.model.ids import NO_LANE
from relevo.model.lanes import Lane
from relevo.model.ring import Ring
from relevo.store.jobs.claim import claim_jobs
from relevo.store.jobs.walk import STATEMENTS, VISITS, find_lanes

LAST = UUID(int=2**128 - 1)
LANES = [(DEFAULT_TENANT, UUID(int=n)) for n in range(6)]

one_database = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def walk(connection: psycopg.Connection, known: Sequence[Lane]) -> list[Lane]:
    found = run(
        connection,
        find_lanes(
            QUEUE,
            [KIND],
            after=(NO_LANE, NO_LANE),
            known=known,
            known_kinds=[None] * len(known),
            priorities=[0, 1, 2, 3],
            lanes=100,
        ),
    )
    return [due.lane for due in found]


@one_database
@given(
    live=st.sets(st.sampled_from(LANES)),
    known=st.sets(st.sampled_from(LANES)),
    after=st.sampled_from([(NO_LANE, NO_LANE), *LANES]),
)
def test_what_is_known_changes_nothing_of_what_a_sweep_starts(
    connection: psycopg.Connection, live: set[Lane], known: set[Lane], after: Lane
) -> None:
    """Red when a lane between two known ones is passed by, or a dry one ends the walk."""
    with connection.transaction(force_rollback=True):
        worker = a_worker(connection)
        for tenant_id, lane in live:
            a_job(connection, tenant_id=tenant_id, lane=lane)

        found = run(
            connection,
            claim_jobs(
                worker,
                QUEUE,
                [KIND],
                limit=100,
                share=10,
                after=after,
                known=sorted(lane for lane in known if lane > after),
                priorities=[0, 1, 2, 3],
            ),
        )

    assert {(job.tenant_id, job.lane) for job in found} == {lane for lane in live if lane > after}


@pytest.mark.parametrize("known", [[], LANES, LANES[2:3]])
def test_a_walk_under_limits_finds_the_same_lanes_in_order(
    connection: psycopg.Connection, known: list[Lane]
) -> None:
    for tenant_id, lane in (LANES[1], LANES[3], LANES[4]):
        a_job(connection, tenant_id=tenant_id, lane=lane)

    assert walk(connection, known) == [LANES[1], LANES[3], LANES[4]]


def test_a_walk_does_not_read_what_a_known_lane_leaves_behind(database: str) -> None:
    """While a snapshot is held open nothing of it can go; red when each sweep reads it twice."""
    with psycopg.connect(database, autocommit=True) as owner, psycopg.connect(database) as holder:
        worker, ring = a_worker(owner), Ring()
        some_jobs(owner, 3000)
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM relevo.jobs")
        while jobs := claim_some(owner, worker, 500, ring=ring):
            settle_some(owner, worker, jobs)

        unknown, told = (pages_of_a_walk(owner, known) for known in ([], ring.known_lanes()))

    assert told < 20
    assert unknown > 5 * told


def pages_of_a_walk(owner: psycopg.Connection, known: Sequence[Lane]) -> int:
    """How many pages the question reads where a step stops, which is the walk alone."""
    params = {
        "queue": QUEUE,
        "after_tenant": NO_LANE,
        "after_lane": NO_LANE,
        "known_tenants": [*(tenant_id for tenant_id, _ in known), LAST],
        "known_lanes": [*(lane for _, lane in known), LAST],
        "visits": VISITS,
    }
    explain = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + STATEMENTS["skip_lanes"].sql
    pages = 0
    # The second time what planning reads is known.
    for _ in range(2):
        row = owner.execute(explain.encode(), params).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return pages
