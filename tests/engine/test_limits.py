"""A limit holds whatever races, and nothing that ends a job can leak what it allowed."""

import time
from collections import Counter
from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_job,
    a_kind,
    a_tenant,
    a_worker,
    claim_some,
    job_row,
    make_due,
    settle_some,
    some_jobs,
    states,
    value,
)
from limiting import connection
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from relevo.engine.limits import (
    declare_limits,
    list_limits,
    prune_permits,
    remove_limit,
    set_limit,
)
from relevo.model.errors import InvalidOption
from relevo.model.ids import NO_LANE, lane_of
from relevo.model.limit import Limit
from relevo.model.ring import Ring
from relevo.model.scope import Scope
from relevo.model.settlement import Action

__all__ = ["connection"]

pytestmark = pytest.mark.core

OTHER = "test.other"
LANE = lane_of(KIND, None)


def limit(connection: psycopg.Connection, scope: Scope, name: str, most: int, **more) -> None:
    run(connection, set_limit(scope, name, most, **more))


def ordered(connection: psycopg.Connection) -> None:
    run(connection, declare_limits([a_kind(ordered=True)]))


def in_lane(connection: psycopg.Connection, key: str, **columns) -> int:
    return a_job(connection, lane=lane_of(KIND, key), lane_key=key, **columns)


def test_no_more_of_a_queue_run_than_its_limit_allows(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 3)
    some_jobs(connection, 10)

    first = claim_some(connection, worker)
    none = claim_some(connection, worker)
    settle_some(connection, worker, first[:2])
    next_ = claim_some(connection, worker)

    assert (len(first), none, len(next_)) == (3, [], 2)


def test_a_kind_at_its_limit_leaves_the_slots_to_others(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.KIND, KIND, 2)
    some_jobs(connection, 50, lane=LANE)
    some_jobs(connection, 5, kind=OTHER)

    claimed = claim_some(connection, worker, 20, kinds=(KIND, OTHER))

    assert Counter(job.kind for job in claimed) == {KIND: 2, OTHER: 5}


def test_the_limit_of_each_tenant_is_its_own_unless_one_has_another(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    tenants = [a_tenant(connection) for _ in range(3)]
    limit(connection, Scope.TENANT, "*", 2)
    limit(connection, Scope.TENANT, str(tenants[0]), 4)
    for tenant in tenants:
        some_jobs(connection, 10, tenant_id=tenant)

    claimed = claim_some(connection, worker)

    assert Counter(job.tenant_id for job in claimed) == {
        tenants[0]: 4,
        tenants[1]: 2,
        tenants[2]: 2,
    }


def test_each_lane_of_a_kind_and_tenant_has_its_own_limit(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    other = a_tenant(connection)
    limit(connection, Scope.LANE, KIND, 2)
    for tenant in (DEFAULT_TENANT, other):
        for key in ("a", "b"):
            some_jobs(connection, 5, tenant_id=tenant, lane=str(lane_of(KIND, key)), lane_key=key)

    claimed = claim_some(connection, worker)

    assert set(Counter((job.tenant_id, job.lane) for job in claimed).values()) == {2}
    assert len(claimed) == 8


def test_a_job_needs_a_permit_of_every_limit_it_falls_under(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 5)
    limit(connection, Scope.KIND, KIND, 3)
    limit(connection, Scope.LANE, KIND, 1)
    for key in "abcdef":
        in_lane(connection, key)
        in_lane(connection, key)
    some_jobs(connection, 10, kind=OTHER)

    ring = Ring()
    claimed = claim_some(connection, worker, kinds=(KIND, OTHER), ring=ring)
    ring.rest()
    claimed += claim_some(connection, worker, kinds=(KIND, OTHER), ring=ring)

    kinds = Counter(job.kind for job in claimed)
    assert kinds[KIND] <= 3
    assert kinds[KIND] + kinds[OTHER] == 5
    assert max(Counter(job.lane for job in claimed if job.kind == KIND).values(), default=0) <= 1


def test_whatever_ends_a_job_its_permit_is_free_again(connection: psycopg.Connection) -> None:
    """F-100: the job's row says whether its permit is free; remove that look, and this fails."""
    worker, dead = a_worker(connection), a_worker(connection, lease=-1)
    limit(connection, Scope.QUEUE, QUEUE, 8)
    some_jobs(connection, 100, max_attempts=1)
    lost = claim_some(connection, dead, 2)
    claimed = claim_some(connection, worker)
    endings = (
        Action.COMPLETED,
        Action.FAILED,
        Action.RETRIED,
        Action.SNOOZED,
        Action.RELEASED,
    )
    for job, action in zip(claimed, endings, strict=False):
        settle_some(connection, worker, [job], action, delay=timedelta(hours=1))
    connection.execute("DELETE FROM relevo.jobs WHERE id = %s", [claimed[5].id])
    run(connection, end_expired_sessions())
    run(connection, rescue_lost_jobs())

    again = claim_some(connection, worker)

    assert (len(lost), len(claimed), len(again)) == (2, 6, 8)


def test_nothing_starts_that_the_workers_do_not_know_to_be_limited(
    connection: psycopg.Connection,
) -> None:
    """The plain statements refuse: a worker that believes in no limit takes nothing by them."""
    worker, ring = a_worker(connection), Ring()
    some_jobs(connection, 50)
    assert len(claim_some(connection, worker, 5, ring=ring)) == 5
    ring.end_look(time.monotonic(), is_limited=False)
    limit(connection, Scope.QUEUE, QUEUE, 7)

    assert claim_some(connection, worker, 5, ring=ring) == []

    ring.end_look(0.0, is_limited=False)
    assert len(claim_some(connection, worker, 5, ring=ring)) == 2


def test_what_ran_before_the_limit_counts(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 20)
    before = claim_some(connection, worker, 5)
    limit(connection, Scope.QUEUE, QUEUE, 3)

    started = [len(claim_some(connection, worker))]
    for job in before:
        settle_some(connection, worker, [job])
        started.append(len(claim_some(connection, worker)))

    # Five ran: of a lowered limit nothing starts before those above it are done.
    assert started[:3] == [0, 0, 0]
    assert sum(started) == 3
    assert states(connection)["running"] == 3


def test_a_limit_that_is_lowered_stops_nothing_and_starts_nothing(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 6)
    some_jobs(connection, 20)
    first = claim_some(connection, worker)
    limit(connection, Scope.QUEUE, QUEUE, 2)

    running = []
    for job in first:
        settle_some(connection, worker, [job])
        claim_some(connection, worker)
        running.append(states(connection).get("running", 0))

    assert len(first) == 6
    assert running[:4] == [5, 4, 3, 2]
    assert max(running[3:]) == 2


def test_a_limit_that_is_raised_or_removed_lets_more_start(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 2)
    some_jobs(connection, 20)

    taken = [len(claim_some(connection, worker))]
    limit(connection, Scope.QUEUE, QUEUE, 5)
    taken.append(len(claim_some(connection, worker)))
    assert run(connection, remove_limit(Scope.QUEUE, QUEUE))
    taken.append(len(claim_some(connection, worker)))

    assert taken == [2, 3, 15]
    assert run(connection, list_limits()) == []
    assert value(connection, "SELECT count(*) FROM relevo.permits") == 0


def test_no_more_start_within_a_time_than_its_limit_allows(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.KIND, KIND, 3, within=timedelta(minutes=1))
    some_jobs(connection, 20, lane=LANE)

    first = claim_some(connection, worker)
    settle_some(connection, worker, first)
    none = claim_some(connection, worker)
    connection.execute(
        "UPDATE relevo.permits SET taken_at = taken_at - interval '61 seconds' WHERE number <= 2"
    )
    next_ = claim_some(connection, worker)

    assert (len(first), none, len(next_)) == (3, [], 2)


def test_jobs_of_an_ordered_lane_run_one_after_the_other(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    ordered(connection)
    jobs = [in_lane(connection, "a") for _ in range(4)]
    others = [in_lane(connection, "b") for _ in range(2)]

    started = []
    for _ in range(4):
        claimed = claim_some(connection, worker)
        started.append([job.id for job in claimed])
        settle_some(connection, worker, claimed)

    assert started == [[jobs[0], others[0]], [jobs[1], others[1]], [jobs[2]], [jobs[3]]]


def test_a_job_that_waits_for_its_retry_keeps_its_turn(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    ordered(connection)
    first, second = in_lane(connection, "a"), in_lane(connection, "a")
    settle_some(
        connection,
        worker,
        claim_some(connection, worker),
        Action.RETRIED,
        delay=timedelta(hours=1),
    )
    some = [in_lane(connection, "a") for _ in range(300)]

    assert claim_some(connection, worker) == []
    make_due(connection, first)
    (again,) = claim_some(connection, worker)
    assert (again.id, again.attempt) == (first, 2)
    assert claim_some(connection, worker) == []
    settle_some(connection, worker, [again], Action.FAILED)
    assert [job.id for job in claim_some(connection, worker)] == [second]
    assert job_row(connection, some[0])["attempt"] == 0


def test_jobs_without_a_lane_are_given_one_and_hold_up_nobody(
    connection: psycopg.Connection,
) -> None:
    """Rows inserted by SQL, or before their kind had a limit."""
    worker, ring = a_worker(connection), Ring()
    some_jobs(connection, 30)
    some_jobs(connection, 3, kind=OTHER)
    limit(connection, Scope.KIND, KIND, 4)

    claimed = []
    for _ in range(3):
        ring.rest()
        claimed += claim_some(connection, worker, kinds=(KIND, OTHER), ring=ring)

    assert Counter(job.kind for job in claimed) == {KIND: 4, OTHER: 3}
    lanes = connection.execute("SELECT DISTINCT lane FROM relevo.jobs WHERE kind = %s", [KIND])
    assert lanes.fetchall() == [(LANE,)]


def test_declared_limits_follow_the_code_and_leave_those_set_by_hand(
    connection: psycopg.Connection,
) -> None:
    declared = [a_kind(limits=(Limit(4), Limit(1, per="lane")), ordered=True)]

    assert run(connection, declare_limits(declared))
    assert not run(connection, declare_limits(declared))
    limit(connection, Scope.KIND, KIND, 9, actor="ada")
    assert not run(connection, declare_limits(declared))
    assert run(connection, declare_limits([a_kind(ordered=True)]))

    standing = {(row.scope, row.measure.value): row.most for row in run(connection, list_limits())}
    assert standing == {(Scope.KIND, "running"): 9, (Scope.LANE, "order"): 1}


def test_what_a_limit_allows_and_uses_is_listed(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 5, actor="ada")
    some_jobs(connection, 3)
    claim_some(connection, worker)

    (row,) = run(connection, list_limits())

    assert (row.scope, row.name, row.most, row.used, row.actor) == (
        Scope.QUEUE,
        QUEUE,
        5,
        3,
        "ada",
    )


def test_a_paused_kind_and_a_paused_tenant_start_nothing_under_limits_either(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    tenant = a_tenant(connection)
    limit(connection, Scope.QUEUE, QUEUE, 50)
    limit(connection, Scope.KIND, "test.third", 5)
    some_jobs(connection, 3)
    some_jobs(connection, 3, kind=OTHER)
    some_jobs(connection, 3, kind="test.third", lane=lane_of("test.third", None))
    some_jobs(connection, 3, tenant_id=tenant)
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, reason) VALUES"
        " ('kind', %s, 'x'), ('kind', 'test.third', 'x'), ('tenant', %s, 'x')",
        [OTHER, str(tenant)],
    )

    claimed = claim_some(connection, worker, kinds=(KIND, OTHER, "test.third"))

    assert Counter((job.kind, job.tenant_id) for job in claimed) == {(KIND, DEFAULT_TENANT): 3}


def test_a_session_that_has_ended_takes_no_permit_with_it(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 3)
    some_jobs(connection, 10)

    assert claim_some(connection, 999_999) == []

    assert len(claim_some(connection, worker)) == 3


def test_permits_of_lanes_that_came_once_are_pruned(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.LANE, KIND, 1)
    for key in "abc":
        in_lane(connection, key)
    claimed = claim_some(connection, worker)
    settle_some(connection, worker, claimed[:2])
    connection.execute("UPDATE relevo.permits SET taken_at = now() - interval '2 hours'")

    assert run(connection, prune_permits(100)) == 2

    (job_id,) = connection.execute("SELECT job_id FROM relevo.permits").fetchone()
    assert job_id == claimed[2].id


@pytest.mark.parametrize("most", [-1, 10_001, True, 2.5, "3"])
def test_a_number_that_no_limit_can_have_is_refused_before_anything_is_sent(
    connection: psycopg.Connection, most: object
) -> None:
    with pytest.raises(InvalidOption, match="most cannot be"):
        run(connection, set_limit(Scope.QUEUE, QUEUE, most))


def test_a_limit_of_nothing_holds_everything_back(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 0)
    some_jobs(connection, 5)

    assert claim_some(connection, worker) == []


def test_python_and_sql_name_the_same_lane(connection: psycopg.Connection) -> None:
    for kind, key in ((KIND, None), (KIND, ""), (KIND, "a"), ("ñ", "café\n'"), ("x", "😀")):
        (lane,) = connection.execute("SELECT relevo.lane_of(%s, %s)", [kind, key]).fetchone()
        assert lane == lane_of(kind, key) != NO_LANE
        assert isinstance(lane, UUID)
