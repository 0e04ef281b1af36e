"""Hundreds of thousands of lanes that have nothing now: a look at them is bounded, and goes on.

Counted are buffers and claims. `RELEVO_TEST_SCALE=20` brings 200,000 lanes.
"""

from collections.abc import Iterator

import psycopg
import pytest
from plans import as_engine

from factories import KIND, a_job, a_kind, a_worker, claim_some
from limiting import ENGINES_LEVEL
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.limits import declare_limits
from relevo.model.ring import Ring
from workers import scaled

pytestmark = [pytest.mark.core, pytest.mark.timeout(600)]

LANES = scaled(10_000, 200_000)
BUFFERS = 50_000
"""What one claim may touch, however many lanes there are: a twentieth of a second or less."""


@pytest.fixture(params=["free", "in order"])
def owner(request: pytest.FixtureRequest, database: str) -> Iterator[psycopg.Connection]:
    """As many lanes as that, each with one job of the future."""
    with psycopg.connect(database, autocommit=True, options=ENGINES_LEVEL) as connection:
        if request.param == "in order":
            with connection.transaction():
                run(connection, declare_limits([a_kind(ordered=True)]))
        connection.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind, lane, lane_key, available_at)"
            " SELECT %s, %s, relevo.lane_of(%s, n::text), n::text, now() + interval '1 day'"
            " FROM generate_series(1, %s) AS n",
            [DEFAULT_TENANT, KIND, KIND, LANES],
        )
        connection.execute("VACUUM ANALYZE relevo.jobs")
        yield connection


def touched(connection: psycopg.Connection) -> int:
    """The buffers of jobs and its indexes that this transaction has fetched."""
    return connection.execute(
        "SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid))::bigint FROM pg_class AS c"
        " WHERE c.oid = 'relevo.jobs'::regclass OR c.oid IN ("
        "SELECT i.indexrelid FROM pg_index AS i WHERE i.indrelid = 'relevo.jobs'::regclass)"
    ).fetchone()[0]


def test_a_claim_is_bounded_however_many_lanes_have_nothing_due(
    owner: psycopg.Connection, database: str
) -> None:
    """Red when a step of the walk ends only where it has found something."""
    worker, ring = a_worker(owner), Ring()
    with psycopg.connect(as_engine(database), autocommit=True) as session:
        costs = []
        for _ in range(5):
            ring.rest()
            with session.transaction():
                before = touched(session)
                assert claim_some(session, worker, ring=ring) == []
                costs.append(touched(session) - before)

    assert max(costs) <= BUFFERS


def test_what_is_due_behind_them_is_found_by_one_walk(
    owner: psycopg.Connection, database: str
) -> None:
    """Red when a walk that stopped early begins again at the start."""
    worker, ring = a_worker(owner), Ring()
    last = owner.execute("SELECT max(lane::text)::uuid FROM relevo.jobs").fetchone()[0]
    job_id = a_job(owner, lane=last)
    found: list[int] = []
    with psycopg.connect(as_engine(database), autocommit=True) as session:
        for _ in range(2 + LANES // 500):
            ring.rest()
            found += [job.id for job in claim_some(session, worker, ring=ring)]
            if found:
                break

    assert found == [job_id]
