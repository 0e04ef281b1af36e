"""Who waits for whom: thousands of tenants beside one that floods, counted in claims.

Nothing here looks at a clock. `RELEVO_TEST_SCALE=20` brings the full size: 10,000 tenants,
of which one has 200,000 jobs.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import pytest
from plans import as_engine

from factories import KIND, a_job, a_tenant, a_worker, claim_some, settle_some, some_jobs
from relevo.db.drivers import run
from relevo.engine.limits import EACH_TENANT, set_limit
from relevo.model.ids import lane_of
from relevo.model.job import ClaimedJob
from relevo.model.ring import LANES_A_ROUND, REVERSE_EVERY, Ring
from relevo.model.scope import Scope
from workers import scaled

pytestmark = [pytest.mark.core, pytest.mark.timeout(1200)]

TENANTS = scaled(500, 10_000)
FLOOD = scaled(10_000, 200_000)
LIMIT = 100
URGENT, LOW = 0, 3
SHARE = LIMIT // 8
"""What one lane may take of a step of the walk."""


@dataclass
class Session:
    """One worker's session: it claims, completes, and counts by tenant who started when."""

    owner: psycopg.Connection
    connection: psycopg.Connection
    worker: int
    ring: Ring = field(default_factory=Ring)
    claims: int = 0
    first: dict[UUID, int] = field(default_factory=dict)
    started: Counter[UUID] = field(default_factory=Counter)

    def claim(self, limit: int = LIMIT, *, sweep_is_due: bool = False) -> list[ClaimedJob]:
        """One claim and what it took, completed."""
        if sweep_is_due:
            self.ring.rest()
        self.claims += 1
        jobs = claim_some(self.connection, self.worker, limit, ring=self.ring)
        for job in jobs:
            self.first.setdefault(job.tenant_id, self.claims)
        self.started.update(job.tenant_id for job in jobs)
        if jobs:
            settle_some(self.connection, self.worker, jobs)
        return jobs


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(as_engine(database), autocommit=True) as connection,
    ):
        yield Session(owner, connection, a_worker(owner))


def many_tenants(owner: psycopg.Connection, number: int) -> list[UUID]:
    """Tenants in the order of the walk."""
    with owner.transaction(), owner.pipeline():
        return [a_tenant_in_place(owner, place) for place in range(1, number + 1)]


def a_tenant_in_place(owner: psycopg.Connection, place: int) -> UUID:
    return a_tenant(owner, UUID(int=place << 64))


def jobs_of(owner: psycopg.Connection, tenants: list[UUID], each: int) -> None:
    """So many due jobs of each tenant."""
    owner.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind)"
        " SELECT t, %s FROM unnest(%s::uuid[]) AS t, generate_series(1, %s)",
        [KIND, tenants, each],
    )


def limit_each_tenant(owner: psycopg.Connection) -> None:
    """Let each tenant run as many jobs as a claim takes: it holds nobody back, and counts."""
    with owner.transaction():
        run(owner, set_limit(Scope.TENANT, EACH_TENANT, LIMIT))


def steps_of(tenants: int, each: int) -> int:
    """How many claims one round of the walk needs: each takes a share of a lane, `LIMIT` in all."""
    through = (tenants - 1) * min(each, SHARE) + SHARE
    return -(-through // LIMIT) + 1


@pytest.mark.parametrize("queue", ["free", "under a limit"])
@pytest.mark.parametrize("each", [1, 20])
def test_every_tenants_first_job_starts_within_one_round_of_the_walk_beside_a_flood(
    session: Session, each: int, queue: str
) -> None:
    """Red when a walk rests before it is over: rounds would give all slots to the flood."""
    if queue == "under a limit":
        limit_each_tenant(session.owner)
    tenants = many_tenants(session.owner, TENANTS)
    flood = tenants.pop(TENANTS // 2)
    jobs_of(session.owner, tenants, each)
    some_jobs(session.owner, FLOOD, tenant_id=flood)
    steps = steps_of(TENANTS, each)

    # Steps follow each other; one that was dear lets rounds go on in between.
    while len(session.first) < TENANTS and session.claims < 2 * steps:
        session.claim()

    assert len(session.first) == TENANTS
    claimed = session.started.total()
    assert session.started[flood] <= claimed / 8 + LIMIT


def test_the_flood_gets_every_slot_that_nobody_else_wants(session: Session) -> None:
    """Red when lanes that have nothing are counted among those that share the slots."""
    tenants = many_tenants(session.owner, 40)
    flood = tenants.pop(20)
    jobs_of(session.owner, tenants, 20)
    some_jobs(session.owner, 5000, tenant_id=flood)
    while any(session.started[tenant] < 20 for tenant in tenants):
        assert session.claims < 5000 // LIMIT
        session.claim()

    sizes = [len(session.claim()) for _ in range(20)]

    # The first claims find out which lanes have nothing any more.
    assert sizes[-10:] == [LIMIT] * 10


@pytest.mark.parametrize("queue", ["free", "under a limit"])
@pytest.mark.parametrize("where", ["before the flood", "behind the flood", "in the flood's lane"])
def test_a_quiet_job_that_is_committed_late_starts_with_the_next_sweep(
    session: Session, database: str, where: str, queue: str
) -> None:
    """Red without sweeps: the job lies behind a floor, or in a lane that nobody remembers."""
    if queue == "under a limit":
        limit_each_tenant(session.owner)
    before, flood, behind = (a_tenant_in_place(session.owner, place) for place in (1, 2, 3))
    quiet = {"before the flood": before, "behind the flood": behind, "in the flood's lane": flood}
    with psycopg.connect(database) as late:
        # Its time is the beginning of its transaction, which is older than what follows.
        job_id = a_job(late, tenant_id=quiet[where])
        some_jobs(session.owner, 5000, tenant_id=flood)
        for _ in range(10):
            assert session.claim()
        late.commit()

    behind_the_floor = {job.id for _ in range(3) for job in session.claim()}
    found = {job.id for job in session.claim(sweep_is_due=True)}

    assert job_id not in behind_the_floor
    assert job_id in found


def test_a_quiet_tenant_among_thousands_of_busy_ones_is_never_later_than_one_walk(
    session: Session,
) -> None:
    """Red when a walk that stopped at the limit begins again at the start."""
    tenants = many_tenants(session.owner, TENANTS)
    quiet = tenants.pop()
    jobs_of(session.owner, tenants, 2 * SHARE)
    for _ in range(3):
        session.claim()
    a_job(session.owner, tenant_id=quiet)
    steps = steps_of(TENANTS, 2 * SHARE)

    while quiet not in session.first and session.claims < 2 * steps:
        session.claim()

    assert quiet in session.first


def test_a_tenant_with_thousands_of_key_lanes_has_one_tenants_share(session: Session) -> None:
    """Red when the walk counts lanes: the tenants behind would wait for all lanes of this one."""
    wide, *others = many_tenants(session.owner, 9)
    lanes = [lane_of(KIND, str(place)) for place in range(TENANTS)]
    session.owner.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, lane)"
        " SELECT %s, %s, lane FROM unnest(%s::uuid[]) AS lane, generate_series(1, 5)",
        [wide, KIND, lanes],
    )
    jobs_of(session.owner, others, 5 * SHARE)

    for _ in range(2 * 9):
        session.claim()

    assert all(session.started[tenant] >= SHARE for tenant in others)


def test_low_priority_work_of_every_tenant_starts_where_more_are_busy_than_a_round_takes(
    session: Session,
) -> None:
    """Red when the tenth turn always falls on the same lanes."""
    number, limit = 2 * LANES_A_ROUND, 4 * LANES_A_ROUND
    tenants = many_tenants(session.owner, number)
    for tenant in tenants:
        some_jobs(session.owner, 20, tenant_id=tenant, priority=URGENT)
        some_jobs(session.owner, 3, tenant_id=tenant, priority=LOW)
    started: Counter[UUID] = Counter()

    # Two rounds take every lane once, and every tenth claim is the low ones' turn.
    for _ in range(2 * 2 * REVERSE_EVERY * 3):
        jobs = session.claim(limit)
        started.update(job.tenant_id for job in jobs if job.priority == LOW)
        for tenant, count in Counter(
            job.tenant_id for job in jobs if job.priority == URGENT
        ).items():
            some_jobs(session.owner, count, tenant_id=tenant, priority=URGENT)

    assert {tenant: started[tenant] for tenant in tenants} == dict.fromkeys(tenants, 3)
