"""F-071 to F-073: low priorities starve, dead rows slow the claim down, the future does.

Counted are starts and buffers, never time. `RELEVO_TEST_SCALE=20` brings the full size.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any
from uuid import UUID

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_worker,
    claim_some,
    settle_some,
    some_jobs,
    value,
)
from relevo import DEFAULT_TENANT
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.model.ids import NO_LANE
from relevo.model.job import ClaimedJob
from relevo.model.ring import PRIORITIES, Ring
from relevo.store.jobs.claim import STATEMENTS
from workers import scaled

pytestmark = [pytest.mark.core, pytest.mark.timeout(1800)]

URGENT, LOW = 0, 3
TENTH = 10


@dataclass
class Session:
    """One worker's session, with the buffers of the jobs' table that each claim touched."""

    owner: psycopg.Connection
    connection: psycopg.Connection
    worker: int
    ring: Ring = field(default_factory=Ring)

    def claim(self, limit: int) -> list[ClaimedJob]:
        """Claim and complete."""
        jobs = claim_some(self.connection, self.worker, limit, ring=self.ring)
        if jobs:
            settle_some(self.connection, self.worker, jobs)
        return jobs

    def cost_of_claim(self, limit: int) -> tuple[list[ClaimedJob], int]:
        """Claim only; answer what came and how many buffers of jobs and its indexes it touched."""
        with self.connection.transaction():
            before = self._touched()
            jobs = claim_some(self.connection, self.worker, limit, ring=self.ring)
            return jobs, self._touched() - before

    def _touched(self) -> int:
        # What this transaction has fetched; nothing is reported before it ends.
        return value(
            self.connection,
            "SELECT sum(pg_stat_get_xact_blocks_fetched(c.oid))::bigint FROM pg_class AS c"
            " WHERE c.oid = 'relevo.jobs'::regclass OR c.oid IN ("
            "SELECT i.indexrelid FROM pg_index AS i WHERE i.indrelid = 'relevo.jobs'::regclass)",
        )


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    engine = with_session(database, role=WORKER_ROLE, settings=ENGINE_SETTINGS)
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(engine, autocommit=True) as connection,
    ):
        yield Session(owner, connection, a_worker(owner))


# --- F-071


def test_f071_low_priority_work_gets_a_tenth_of_the_starts_under_steady_urgent_work(
    session: Session,
) -> None:
    """Mechanism: every tenth claim takes the priorities in reverse; red without it."""
    limit, low = 4, 200
    some_jobs(session.owner, low, priority=LOW)
    some_jobs(session.owner, 4 * limit, priority=URGENT)
    started: list[int] = []
    claims = 0

    while len(started) < low:
        jobs = session.claim(limit)
        claims += 1
        started += [job.id for job in jobs if job.priority == LOW]
        # Capacity is used up all the time: as many urgent ones wait as before.
        some_jobs(session.owner, sum(job.priority == URGENT for job in jobs), priority=URGENT)
        assert len(jobs) == limit
        # A sweep may have the tenth turn; it takes its share of the slots only.
        assert len(started) >= limit * (claims // TENTH) * 0.8 - limit

    assert started == sorted(started)
    assert claims <= 1.25 * TENTH * low / limit


# --- F-072


def test_f072_claims_do_not_read_the_rows_that_a_held_snapshot_keeps(
    session: Session, database: str
) -> None:
    """Mechanism: a round begins in each lane behind its floor, and sweeps are rare.

    Red when claims begin at the oldest row: the last would read every dead entry before it.
    """
    batch, total = 100, scaled(15_000, 300_000)
    rounds: list[int] = []
    with psycopg.connect(database) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM relevo.jobs")
        for _ in range(total // batch):
            some_jobs(session.owner, batch)
            begun_at = time.monotonic()
            jobs, touched = session.cost_of_claim(batch)
            settle_some(session.connection, session.worker, jobs)
            assert len(jobs) == batch
            if not session.ring.has_swept_since(begun_at):
                rounds.append(touched)
        some_jobs(session.owner, batch)
        session.ring.rest()
        _, swept = session.cost_of_claim(batch)
        holder.rollback()

    part = len(rounds) // 10
    first, last = median(rounds[:part]), median(rounds[-part:])
    assert last <= 1.25 * first
    # The dead entries are there: whoever reads from the oldest row meets them all.
    assert swept >= 5 * last


# --- F-073


def test_f073_rows_of_the_future_cost_a_claim_nothing(session: Session) -> None:
    """Mechanism: inside a lane and priority the index is in the order of the time."""
    alone = cost_of_claims(session)
    future(session, scaled(100_000, 2_000_000))
    beside = cost_of_claims(session)

    assert beside <= 1.25 * alone


def test_f073_an_idle_look_beside_rows_of_the_future_touches_a_handful_of_buffers(
    session: Session,
) -> None:
    """Red when the look reads every row whose time has not come, to find that none has."""
    future(session, scaled(100_000, 2_000_000))

    jobs, touched = session.cost_of_claim(100)

    assert jobs == []
    # The lane, its four priorities, and the end of the walk, each from the root of the index;
    # and, at the first such look, where the walk stopped.
    assert touched <= 100


def test_f073_due_rows_among_rows_of_the_future_are_found_by_the_partial_index_alone(
    session: Session,
) -> None:
    future(session, scaled(100_000, 2_000_000))
    some_jobs(session.owner, 1000)
    session.owner.execute("ANALYZE relevo.jobs")

    for name, params in (("claim_jobs", SWEEP), ("claim_lanes", ROUND)):
        plan = session.connection.execute(
            f"EXPLAIN (FORMAT JSON) {STATEMENTS[name].sql}".encode(), params
        ).fetchone()[0]
        found = list(nodes(plan[0]["Plan"]))
        reads = {
            (node["Node Type"], node.get("Index Name"))
            for node in found
            if node.get("Relation Name") == "jobs" and "Scan" in node["Node Type"]
        }
        assert reads - {("Index Only Scan", "jobs_claim")} == {
            ("Index Scan", "jobs_claim"),
            ("Tid Scan", None),
        }
        assert not any("Sort" in node["Node Type"] for node in found)


SWEEP = {
    "worker": 0,
    "queue": QUEUE,
    "kinds": [KIND],
    "limit": 100,
    "share": 12,
    "after_tenant": NO_LANE,
    "after_lane": NO_LANE,
    "priorities": list(PRIORITIES),
    "known_tenants": [UUID(int=2**128 - 1)],
    "known_lanes": [UUID(int=2**128 - 1)],
    "visits": 2000,
}
ROUND = {
    "worker": 0,
    "queue": QUEUE,
    "kinds": [KIND],
    "limit": 100,
    "shares": [100] * 4,
    "tenant_ids": [DEFAULT_TENANT] * 4,
    "lanes": [NO_LANE] * 4,
    "priorities": list(PRIORITIES),
    "floors": [datetime(1, 1, 1, tzinfo=UTC)] * 4,
    "floor_ids": [0] * 4,
}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan's nodes, the top first."""
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


def future(session: Session, count: int) -> None:
    """So many rows whose time comes within a month."""
    session.owner.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, available_at)"
        " SELECT %s, %s, now() + interval '1 hour' + n::bigint * 7919 %% 2500000 * interval '1 s'"
        " FROM generate_series(1, %s) AS n",
        [DEFAULT_TENANT, KIND, count],
    )


def cost_of_claims(session: Session) -> float:
    """The buffers that a claim of a thousand due jobs touches, a hundred at a time.

    Claims with which a sweep came are left out: those come by the clock, and more of them
    where claims are slow.
    """
    session.owner.execute("VACUUM relevo.jobs")
    some_jobs(session.owner, 1000)
    session.ring = Ring()
    costs = []
    for _ in range(10):
        begun_at = time.monotonic()
        jobs, touched = session.cost_of_claim(100)
        settle_some(session.connection, session.worker, jobs)
        assert len(jobs) == 100
        if not session.ring.has_swept_since(begun_at):
            costs.append(touched)
    return median(costs)
