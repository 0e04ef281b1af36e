"""One look at everything: what it counts, over which time, and where it says that there is more."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from factories import QUEUE, a_job, a_tenant, a_worker, some_jobs, value
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine import watch
from relevo.engine.limits import set_limit
from relevo.engine.watch import (
    Look,
    QueueLook,
    look_at_ended,
    look_at_live,
    look_at_standing,
    look_at_uses,
    put_together,
)
from relevo.model.ids import NO_LANE
from relevo.model.scope import Scope

pytestmark = pytest.mark.core


def look(connection: psycopg.Connection, rows: int = 1000, window: float = 10.0) -> Look:
    standing = run(connection, look_at_standing())
    live = run(connection, look_at_live(rows=rows, window=window))
    ended = run(connection, look_at_ended(rows=rows, window=window))
    return put_together(standing, live, ended, run(connection, look_at_uses()), window)


def of_queue(seen: Look, queue: str) -> QueueLook:
    return next(each for each in seen.queues if each.queue == queue)


def ago(connection: psycopg.Connection, seconds: float) -> Any:
    return value(connection, "SELECT now() - %s * interval '1 second'", seconds)


def ended(connection: psycopg.Connection, number: int, seconds: float, **columns: Any) -> None:
    """Jobs that ended some seconds ago."""
    at = ago(connection, seconds)
    given = {"state": "completed", "finished_at": at, "started_at": at, **columns}
    some_jobs(connection, number, live=False, outcome=given["state"], **given)


def test_an_empty_installation_shows_nothing(connection: psycopg.Connection) -> None:
    seen = look(connection)

    assert (seen.queues, seen.workers, seen.pauses, seen.limits) == ([], [], [], [])
    assert seen.is_whole
    assert seen.rates_are_whole


def test_live_jobs_are_counted_by_where_they_stand(connection: psycopg.Connection) -> None:
    worker = a_worker(connection, queues=("mail",))
    some_jobs(connection, 3, queue="mail", available_at=ago(connection, 60))
    some_jobs(connection, 2, queue="mail", available_at=ago(connection, -60))
    some_jobs(connection, 1, queue="mail", available_at=ago(connection, -60), attempt=1)
    some_jobs(connection, 1, queue="mail", available_at=ago(connection, 5), attempt=1, excused=1)
    some_jobs(connection, 4, queue="mail", state="running", worker=worker, attempt=1)

    seen = look(connection)

    mail = of_queue(seen, "mail")
    assert (mail.due, mail.later, mail.retrying, mail.running) == (4, 3, 1, 4)
    assert mail.oldest == pytest.approx(60, abs=5)
    assert mail.is_whole
    assert seen.running == {worker: 4}


def test_all_tenants_are_counted_together(connection: psycopg.Connection) -> None:
    for _ in range(3):
        a_job(connection, tenant_id=a_tenant(connection))

    assert of_queue(look(connection), "default").due == 3


def test_rates_are_counted_over_the_window_and_by_outcome(connection: psycopg.Connection) -> None:
    ended(connection, 20, 5)
    ended(connection, 10, 5, state="failed")
    ended(connection, 5, 5, state="cancelled")
    ended(connection, 100, 30)

    queue = of_queue(look(connection), "default")

    assert (queue.completions, queue.failures, queue.starts) == (2.0, 1.0, 3.5)


def test_a_start_counts_once_whether_its_job_runs_waits_again_or_has_ended(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    recently = ago(connection, 3)
    some_jobs(connection, 4, state="running", worker=worker, attempt=1, started_at=recently)
    some_jobs(connection, 3, attempt=1, started_at=recently)
    ended(connection, 2, 2, started_at=recently)
    ended(connection, 1, 2, started_at=ago(connection, 60))
    # So lately that others of its moment may not have been committed.
    ended(connection, 1, 0, started_at=recently)

    queue = of_queue(look(connection), "default")

    assert queue.starts == 1.0
    assert queue.completions == pytest.approx(0.3)


def test_a_queue_that_only_a_live_worker_or_an_ended_job_names_is_shown(
    connection: psycopg.Connection,
) -> None:
    a_worker(connection, queues=("served",))
    a_worker(connection, queues=("left",), lease=-1)
    ended(connection, 1, 1, queue="done")

    seen = look(connection)

    assert [each.queue for each in seen.queues] == ["done", "served"]


def test_a_queue_longer_than_the_bound_says_so(connection: psycopg.Connection) -> None:
    some_jobs(connection, 150)

    exact = of_queue(look(connection, rows=151), "default")
    cut = of_queue(look(connection, rows=100), "default")

    assert (exact.due, exact.is_whole) == (150, True)
    assert (cut.due, cut.is_whole) == (100, False)


def test_what_short_queues_leave_of_the_bound_goes_to_the_long_ones(
    connection: psycopg.Connection,
) -> None:
    """Red when each queue only has its equal share: ten queues would hide a backlog of 11 %."""
    some_jobs(connection, 70, queue="long")
    for number in range(9):
        some_jobs(connection, 1, queue=f"short{number}")

    queue = of_queue(look(connection, rows=100), "long")

    assert (queue.due, queue.is_whole) == (70, True)


def test_in_a_long_queue_what_runs_and_what_is_oldest_is_found_in_every_lane(
    connection: psycopg.Connection,
) -> None:
    """Red when only the first rows are read: the last tenant's jobs would stay unseen."""
    worker = a_worker(connection)
    first, last = sorted((a_tenant(connection), a_tenant(connection)))
    some_jobs(connection, 400, tenant_id=first)
    recently = ago(connection, 3)
    running = {"state": "running", "worker": worker, "attempt": 1, "started_at": recently}
    some_jobs(connection, 5, tenant_id=last, available_at=ago(connection, 90), **running)
    some_jobs(connection, 400, tenant_id=last, available_at=ago(connection, 80))

    seen = look(connection, rows=2 * watch.HEAD)

    queue = of_queue(seen, "default")
    assert not queue.is_whole
    assert (queue.running, queue.starts) == (5, 0.5)
    assert queue.oldest == pytest.approx(80, abs=5)
    assert seen.running == {worker: 5}


def test_more_ended_jobs_than_the_bound_make_the_rates_say_so(
    connection: psycopg.Connection,
) -> None:
    ended(connection, 30, 5, state="failed")
    ended(connection, 300, 5)

    seen = look(connection, rows=100)

    assert not seen.rates_are_whole
    # The failed are counted first, so a flood does not hide them.
    assert of_queue(seen, "default").failures == 3.0
    assert look(connection).rates_are_whole


def test_workers_show_when_they_were_heard_of_and_for_how_long_they_hold(
    connection: psycopg.Connection,
) -> None:
    a_worker(connection, lease=30)
    a_worker(connection, lease=-5)
    connection.execute(
        "UPDATE relevo.workers SET heartbeat_at = clock_timestamp() - '7 s'::interval"
    )

    workers = look(connection).workers

    assert [round(each.silent) for each in workers] == [7, 7]
    assert sorted(round(each.lease) for each in workers) == [-5, 30]


def test_pauses_and_limits_name_tenants_by_their_slugs(connection: psycopg.Connection) -> None:
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    tenant = a_tenant(connection)
    slug = value(connection, "SELECT slug FROM relevo.tenants WHERE id = %s", tenant)
    connection.execute(
        "INSERT INTO relevo.pauses (scope, name, paused_until, reason) VALUES"
        " ('tenant', %s, '2999-01-01', 'moving'), ('queue', 'mail', NULL, 'down'),"
        " ('queue', 'past', now(), 'over')",
        [str(tenant)],
    )
    run(connection, set_limit(Scope.TENANT, str(tenant), 3))
    run(connection, set_limit(Scope.QUEUE, "mail", 10, within=timedelta(seconds=1)))

    seen = look(connection)

    assert [(each.scope, each.name, each.reason) for each in seen.pauses] == [
        ("queue", "mail", "down"),
        ("tenant", slug, "moving"),
    ]
    assert [(each.scope, each.name, each.measure, each.most) for each in seen.limits or ()] == [
        ("queue", "mail", "starts", 10),
        ("tenant", slug, "running", 3),
    ]


def test_a_limit_counts_what_runs_under_it(connection: psycopg.Connection) -> None:
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    worker = a_worker(connection)
    some_jobs(connection, 4, state="running", worker=worker, attempt=1)
    run(connection, set_limit(Scope.QUEUE, "default", 10))

    (limit,) = look(connection).limits or ()

    assert (limit.used, limit.is_whole) == (4, True)


def test_a_start_from_before_the_clock_went_back_is_not_in_use(
    connection: psycopg.Connection,
) -> None:
    """The claim lets another start then; red when the view still shows the limit as reached."""
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    run(connection, set_limit(Scope.QUEUE, QUEUE, 10, within=timedelta(hours=1)))
    for number, ahead in ((1, timedelta(0)), (2, timedelta(minutes=5)), (3, timedelta(hours=-2))):
        connection.execute(
            "INSERT INTO relevo.permits (limit_id, for_tenant, for_lane, number, job_tenant,"
            " job_id, attempt, taken_at)"
            " SELECT id, %s, %s, %s, %s, %s, 1, now() + %s FROM relevo.limits",
            [NO_LANE, NO_LANE, number, DEFAULT_TENANT, number, ahead],
        )

    (limit,) = look(connection).limits or ()

    assert limit.used == 1


def test_a_look_without_its_counts_still_shows_who_works(connection: psycopg.Connection) -> None:
    a_worker(connection, queues=("mail",))
    standing = run(connection, look_at_standing())

    seen = put_together(standing, None, None, None, 10.0)

    assert (seen.has_live, seen.has_rates, seen.rates_are_whole, seen.limits) == (
        False, False, False, None,
    )  # fmt: skip
    assert [each.queue for each in seen.queues] == ["mail"]
    assert not seen.queues[0].is_whole
    assert len(seen.workers) == 1
