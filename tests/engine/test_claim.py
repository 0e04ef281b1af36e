"""A claim takes what is due, first things first, tenant after tenant."""

from dataclasses import replace
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
    job_row,
    settle_some,
    some_jobs,
    value,
)
from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.model.ring import Ring
from relevo.model.settlement import Action

pytestmark = pytest.mark.core


def test_a_claimed_job_is_running_and_its_start_is_counted(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    job_id = a_job(connection, payload={"a": 1}, aggregate_id="x", headers={"h": "1"}, actor="ada")

    (job,) = claim_some(connection, worker)

    row = job_row(connection, job_id)
    assert (row["state"], row["attempt"], row["worker"]) == ("running", 1, worker)
    assert row["started_at"] is not None
    assert (job.id, job.attempt, job.kind, job.payload) == (job_id, 1, KIND, '{"a": 1}')
    assert (job.aggregate_id, job.headers, job.actor) == ("x", '{"h": "1"}', "ada")


def test_only_due_free_live_jobs_of_the_queue_and_of_known_kinds_are_taken(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    a_job(connection, available_at="9000-01-01")
    a_job(connection, state="running")
    a_job(connection, state="completed")
    a_job(connection, queue="another")
    a_job(connection, kind="somebody.elses")
    mine = a_job(connection)

    assert [job.id for job in claim_some(connection, worker)] == [mine]


def test_no_more_are_taken_than_there_are_slots(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 10)

    taken = claim_some(connection, worker, 3)

    assert len(taken) == 3
    assert value(connection, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'") == 3


def test_urgent_jobs_come_first_and_then_those_that_waited_longest(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    late = a_job(connection, priority=0, available_at="now")
    low = a_job(connection, priority=3, available_at="2001-01-01")
    early = a_job(connection, priority=0, available_at="2001-01-01")
    middle = a_job(connection, priority=1, available_at="2000-01-01")

    assert [job.id for job in claim_some(connection, worker, 2)] == [early, late]
    assert [job.id for job in claim_some(connection, worker, 2)] == [middle, low]


def test_equal_times_are_taken_in_the_order_of_ids(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 50)

    taken = [job.id for job in claim_some(connection, worker, 20)]

    assert taken == sorted(taken)
    assert taken == list(range(taken[0], taken[0] + 20))


def test_a_paused_queue_is_left_alone_and_others_are_not(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    other = a_job(connection, queue="another")
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason, actor) "
        "VALUES ('queue', %s, now() + interval '1 hour', 'outage', 'me')",
        [QUEUE],
    )

    assert claim_some(connection, worker) == []
    assert [job.id for job in claim_some(connection, worker, queue="another")] == [other]


def test_a_pause_that_is_over_holds_nobody(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason, actor) "
        "VALUES ('queue', %s, now() - interval '1 second', 'outage', 'me')",
        [QUEUE],
    )

    assert len(claim_some(connection, worker)) == 1


def tenants(connection: psycopg.Connection, number: int) -> list[UUID]:
    return [a_tenant(connection, UUID(int=place << 64)) for place in range(1, number + 1)]


def take(
    connection: psycopg.Connection, worker: int, limit: int, claims: int
) -> list[dict[UUID, int]]:
    """Claim again and again as a worker does; answers how many of each tenant a claim took."""
    ring, taken = Ring(), []
    for _ in range(claims):
        counts: dict[UUID, int] = {}
        for job in run(connection, claim(worker, QUEUE, [KIND], limit, ring)):
            counts[job.tenant_id] = counts.get(job.tenant_id, 0) + 1
        taken.append(counts)
        # A second and more goes by, so that the next sweep is due.
        ring.rest()
    return taken


def test_a_flood_of_one_tenant_does_not_hold_up_the_others(connection: psycopg.Connection) -> None:
    """Red when a lane may take every slot of a sweep."""
    worker = a_worker(connection)
    flood, quiet, last = tenants(connection, 3)
    some_jobs(connection, 500, tenant_id=flood)
    for tenant in (quiet, last):
        some_jobs(connection, 5, tenant_id=tenant)

    (first, *_) = take(connection, worker, 16, 1)

    assert first[quiet] >= 2
    assert first[last] >= 2
    assert sum(first.values()) == 16


def test_a_tenants_urgent_flood_does_not_hold_up_another_tenants_ordinary_work(
    connection: psycopg.Connection,
) -> None:
    """Red when priorities are compared between tenants."""
    worker = a_worker(connection)
    urgent, ordinary = tenants(connection, 2)
    some_jobs(connection, 500, tenant_id=urgent, priority=0)
    some_jobs(connection, 5, tenant_id=ordinary, priority=3)

    taken = take(connection, worker, 8, 3)

    assert sum(counts.get(ordinary, 0) for counts in taken) == 5


def test_every_tenant_is_served_within_one_round_of_sweeps(connection: psycopg.Connection) -> None:
    """Red when a full sweep begins where the last one began."""
    worker = a_worker(connection)
    everybody = tenants(connection, 21)
    for tenant in everybody:
        some_jobs(connection, 100, tenant_id=tenant)

    taken = take(connection, worker, 8, 3)

    assert {tenant for counts in taken for tenant in counts} == set(everybody)


def test_between_sweeps_remembered_lanes_share_the_slots(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    everybody = tenants(connection, 4)
    for tenant in everybody:
        some_jobs(connection, 100, tenant_id=tenant)
    ring = Ring()
    claim_some(connection, worker, 8, ring=ring)

    jobs = claim_some(connection, worker, 8, ring=ring)

    counts = {tenant: sum(job.tenant_id == tenant for job in jobs) for tenant in everybody}
    assert counts == dict.fromkeys(everybody, 2)


def test_a_cursor_beyond_the_last_tenant_begins_again(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 3)
    beyond = UUID(int=2**128 - 1)
    ring = Ring(cursor=(beyond, beyond))

    claim_some(connection, worker, 10, ring=ring)
    ring.rest()

    assert len(claim_some(connection, worker, 10, ring=ring)) == 3


def test_a_job_behind_the_floor_starts_with_the_next_sweep(connection: psycopg.Connection) -> None:
    """Red without the sweep: a job that became due late, or that was committed late, lies there."""
    worker = a_worker(connection)
    some_jobs(connection, 20)
    ring = Ring()
    assert len(claim_some(connection, worker, 20, ring=ring)) == 20
    late = a_job(connection, available_at="2001-01-01")

    assert claim_some(connection, worker, 20, ring=ring) == []
    ring.rest()
    assert [job.id for job in claim_some(connection, worker, 20, ring=ring)] == [late]


def test_a_clock_that_went_back_forgets_the_floors(connection: psycopg.Connection) -> None:
    """Red when floors outlive the clock that they were read from."""
    worker = a_worker(connection)
    some_jobs(connection, 4)
    ring = Ring()
    later = claim_some(connection, worker, 4, ring=ring)[-1]
    earlier = replace(later, started_at=later.started_at - timedelta(hours=1))

    ring.end_sweep(4, [earlier], 0.0, 0.0)

    begun = ring.begin_round(1)
    assert begun is not None
    floors = {place for _, _, place in begun.probes if place[1] != 0}
    assert floors == {(earlier.available_at, earlier.id)}


def test_every_tenth_claim_takes_the_last_priority_first(connection: psycopg.Connection) -> None:
    """Red without the reversal: under a steady flood of urgent work nothing else starts."""
    worker = a_worker(connection)
    some_jobs(connection, 500, priority=0)
    low = a_job(connection, priority=3)
    ring = Ring()

    started = [job.id for _ in range(11) for job in claim_some(connection, worker, 4, ring=ring)]

    assert low in started
    assert len(started) < 50


def test_rows_of_one_instant_are_taken_once_and_wholly_behind_the_floor(
    connection: psycopg.Connection,
) -> None:
    """Red when the floor is a time alone: equal times would be skipped, or read again and again."""
    worker = a_worker(connection)
    some_jobs(connection, 1000)
    ring = Ring()

    taken = [job.id for _ in range(10) for job in claim_some(connection, worker, 100, ring=ring)]

    assert len(taken) == len(set(taken)) == 1000


def test_a_session_that_has_ended_takes_nothing(connection: psycopg.Connection) -> None:
    worker = a_worker(connection, lease=-1)
    a_job(connection)
    connection.execute("DELETE FROM relevo.workers WHERE id = %s", [worker])

    assert claim_some(connection, worker) == []
    assert value(connection, "SELECT attempt FROM relevo.jobs") == 0


@pytest.mark.parametrize("date", ["-infinity", "infinity", "0044-03-15 BC", "12000-01-01"])
def test_a_due_date_that_no_client_reads_is_refused_by_the_table(
    connection: psycopg.Connection, date: str
) -> None:
    """Red without jobs_due_date: the claim would take the row and fail to read it, for ever."""
    with pytest.raises(psycopg.errors.CheckViolation, match="jobs_due_date"):
        a_job(connection, available_at=date)


@pytest.mark.parametrize("action", [Action.RETRIED, Action.RELEASED])
def test_the_largest_count_stops_no_claim(connection: psycopg.Connection, action: Action) -> None:
    """Red when the count overflows: nothing of the queue would be claimed any more."""
    worker, most = a_worker(connection), 2**31 - 1
    full = a_job(connection, attempt=most, excused=most, losses=most)
    ordinary = a_job(connection)

    claimed = claim_some(connection, worker)
    settle_some(connection, worker, claimed, action)

    assert [job.id for job in claimed] == [full, ordinary]
    assert job_row(connection, full)["state"] == "available"
    assert job_row(connection, full)["excused"] == most


def test_the_largest_count_stops_no_claim_of_a_lane_that_is_known(
    connection: psycopg.Connection,
) -> None:
    """The same where the worker goes back to a lane: another statement takes the jobs."""
    worker, most, ring = a_worker(connection), 2**31 - 1, Ring()
    first = a_job(connection)
    full = a_job(connection, attempt=most, excused=most, losses=most)

    found = [claim_some(connection, worker, 1, ring=ring) for _ in range(2)]

    assert [job.id for jobs in found for job in jobs] == [first, full]
    assert found[1][0].attempt == most
