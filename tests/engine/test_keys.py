"""A key lets one job in at a time: for ever, for a time, while it lives, or while it waits."""

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest

from factories import a_job, a_tenant, a_worker, claim_some, job_row, make_due, settle_some, value
from relevo import Context, Enqueued, KeyMode, Relevo
from relevo.model.settlement import Action

app = Relevo()


@app.job("test.work", queue="default", max_attempts=4, priority=1)
async def work(ctx: Context, order: UUID | None = None, note: str = "") -> None:
    """Nothing."""


def test_a_second_job_with_the_key_is_refused_with_the_holders_id(
    connection: psycopg.Connection,
) -> None:
    first = work.with_options(key="k").enqueue(connection)

    second = work.with_options(key="k").enqueue(connection)

    assert first.created
    assert second == Enqueued(first.id, created=False)


@pytest.mark.parametrize("state", ["available", "running", "completed", "failed", "cancelled"])
def test_a_key_for_ever_refuses_whatever_became_of_its_holder(
    connection: psycopg.Connection, state: str
) -> None:
    holder = a_job(connection, state=state, key="k")

    answer = work.with_options(key="k").enqueue(connection)

    assert answer == Enqueued(holder, created=False)


@pytest.mark.parametrize(
    ("state", "created"),
    [("available", False), ("running", False), ("completed", True), ("failed", True)],
)
def test_a_live_key_refuses_until_its_holder_has_ended(
    connection: psycopg.Connection, state: str, *, created: bool
) -> None:
    holder = a_job(connection, state=state, live_key="k")

    answer = work.with_options(key="k", key_mode=KeyMode.LIVE).enqueue(connection)

    assert answer.created is created
    assert (answer.id == holder) is not created


def test_a_waiting_key_refuses_until_its_holder_has_started(
    connection: psycopg.Connection,
) -> None:
    waiting = work.with_options(key="k", key_mode=KeyMode.WAITING)
    first = waiting.enqueue(connection)
    refused = waiting.enqueue(connection)
    worker = a_worker(connection)
    (running,) = claim_some(connection, worker)

    second = waiting.enqueue(connection)

    assert refused == Enqueued(first.id, created=False)
    assert running.id == first.id
    assert second.created


def test_a_waiting_key_is_not_taken_back_by_a_retry(connection: psycopg.Connection) -> None:
    """Red when a retry restored the key: it would meet the job enqueued in the meantime."""
    waiting = work.with_options(key="k", key_mode=KeyMode.WAITING)
    first = waiting.enqueue(connection)
    worker = a_worker(connection)
    running = claim_some(connection, worker)
    second = waiting.enqueue(connection)

    settle_some(connection, worker, running, Action.RETRIED, delay=timedelta(0))
    make_due(connection, first.id)

    found = {job.id for job in claim_some(connection, worker)}
    assert found == {first.id, second.id}


def test_a_key_is_free_again_when_its_time_is_over(connection: psycopg.Connection) -> None:
    for_an_hour = work.with_options(key="k", key_for=timedelta(hours=1))
    first = for_an_hour.enqueue(connection)
    refused = for_an_hour.enqueue(connection)
    connection.execute("UPDATE relevo.jobs SET key_expires_at = now() - interval '1 second'")

    second = for_an_hour.enqueue(connection)

    assert refused == Enqueued(first.id, created=False)
    assert second.created
    assert job_row(connection, first.id)["key"] is None


def test_an_expired_key_is_also_freed_for_an_enqueue_whose_own_key_never_expires(
    connection: psycopg.Connection,
) -> None:
    first = work.with_options(key="k", key_for=timedelta(hours=1)).enqueue(connection)
    connection.execute("UPDATE relevo.jobs SET key_expires_at = now() - interval '1 second'")

    second = work.with_options(key="k").enqueue(connection)

    assert second.created
    assert second.id != first.id


def test_keys_of_other_kinds_and_tenants_are_other_keys(connection: psycopg.Connection) -> None:
    tenant = a_tenant(connection)
    a_job(connection, kind="other.kind", key="k")
    a_job(connection, tenant_id=tenant, key="k")

    assert work.with_options(key="k").enqueue(connection).created


def test_where_an_index_of_the_application_refused_there_is_no_holder(
    connection: psycopg.Connection,
) -> None:
    connection.execute(
        "CREATE UNIQUE INDEX mine ON relevo.jobs ((payload->>'note')) WHERE kind = 'test.work'"
    )
    work.enqueue(connection, note="once")

    plain = work.enqueue(connection, note="once")
    keyed = work.with_options(key="k").enqueue(connection, note="once")

    assert plain == keyed == Enqueued(None, created=False)
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 1
