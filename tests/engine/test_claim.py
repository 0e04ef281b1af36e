"""A claim takes what is due, first things first, tenant after tenant."""

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
from relevo.engine.jobs.claim import START, Cursor, claim
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
        "INSERT INTO relevo.queues VALUES (%s, now() + interval '1 hour', 'outage', 'me')", [QUEUE]
    )

    assert claim_some(connection, worker) == []
    assert [job.id for job in claim_some(connection, worker, queue="another")] == [other]


def test_a_pause_that_is_over_holds_nobody(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    connection.execute(
        "INSERT INTO relevo.queues VALUES (%s, now() - interval '1 second', 'outage', 'me')",
        [QUEUE],
    )

    assert len(claim_some(connection, worker)) == 1


def tenants(connection: psycopg.Connection, number: int) -> list[UUID]:
    return [a_tenant(connection, UUID(int=place << 64)) for place in range(1, number + 1)]


def walk(
    connection: psycopg.Connection, worker: int, limit: int, rounds: int
) -> list[dict[UUID, int]]:
    """Claim again and again as a worker does; answers how many of each tenant a claim took."""
    cursor, taken = START, []
    for _ in range(rounds):
        jobs, cursor = run(connection, claim(worker, QUEUE, [KIND], limit, cursor))
        counts: dict[UUID, int] = {}
        for job in jobs:
            counts[job.tenant_id] = counts.get(job.tenant_id, 0) + 1
        taken.append(counts)
    return taken


def test_a_flood_of_one_tenant_does_not_hold_up_the_others(connection: psycopg.Connection) -> None:
    """Red without the cursor: every claim would begin with the first tenant's flood."""
    worker = a_worker(connection)
    flood, quiet, last = tenants(connection, 3)
    some_jobs(connection, 500, tenant_id=flood)
    for tenant in (quiet, last):
        some_jobs(connection, 5, tenant_id=tenant)

    taken = walk(connection, worker, 10, 3)

    assert taken[0] == {flood: 10}
    assert taken[1] == {quiet: 5, last: 5}
    assert taken[2] == {flood: 10}


def test_a_tenants_urgent_flood_does_not_hold_up_another_tenants_ordinary_work(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    urgent, ordinary = tenants(connection, 2)
    some_jobs(connection, 500, tenant_id=urgent, priority=0)
    some_jobs(connection, 5, tenant_id=ordinary, priority=3)

    taken = walk(connection, worker, 10, 2)

    assert taken[1][ordinary] == 5


def test_a_walk_that_came_round_goes_on_after_the_tenant_it_came_to(
    connection: psycopg.Connection,
) -> None:
    """Red when the next claim begins after the highest tenant, not after the last one served."""
    worker = a_worker(connection)
    first, second, third = tenants(connection, 3)
    for tenant in (first, second):
        some_jobs(connection, 500, tenant_id=tenant)
    some_jobs(connection, 2, tenant_id=third)

    taken = walk(connection, worker, 10, 5)

    assert taken[:3] == [{first: 10}, {second: 10}, {third: 2, first: 8}]
    assert taken[3] == {second: 10}
    assert taken[4] == {first: 10}


def test_every_tenant_is_served_within_as_many_claims_as_there_are_tenants(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    everybody = tenants(connection, 7)
    for tenant in everybody:
        some_jobs(connection, 100, tenant_id=tenant)

    taken = walk(connection, worker, 5, 7)

    assert {tenant for counts in taken for tenant in counts} == set(everybody)


def test_a_cursor_beyond_the_last_tenant_begins_again(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    some_jobs(connection, 3)
    beyond = Cursor(UUID(int=2**128 - 1), UUID(int=2**128 - 1))

    jobs, cursor = run(connection, claim(worker, QUEUE, [KIND], 10, beyond))

    assert len(jobs) == 3
    assert cursor == START


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
