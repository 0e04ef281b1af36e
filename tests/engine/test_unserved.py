"""Jobs of kinds that no live worker of their queue has are put off, and hold nobody up."""

from datetime import timedelta

import psycopg
import pytest

from factories import QUEUE, a_job, a_worker, claim_some, some_jobs
from limiting import ENGINES_LEVEL
from relevo import Relevo
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import postpone_unserved
from relevo.engine.limits import declare_limits
from relevo.model.ids import NO_LANE

pytestmark = pytest.mark.core


def test_due_jobs_that_no_live_worker_of_the_queue_serves_are_put_off_uncharged(
    connection: psycopg.Connection,
) -> None:
    a_worker(connection, kinds=("served",))
    a_worker(connection, kinds=("elsewhere",), queues=("another",))
    a_worker(connection, kinds=("dead",), lease=-1)
    for kind in ("served", "elsewhere", "dead", "unknown"):
        a_job(connection, kind=kind)

    postponed = run(connection, postpone_unserved(QUEUE))

    assert postponed == {"elsewhere": 1, "dead": 1, "unknown": 1}
    put_off = connection.execute(
        "SELECT kind, attempt, available_at - now() FROM relevo.jobs WHERE available_at > now()"
    ).fetchall()
    assert {kind for kind, _, _ in put_off} == set(postponed)
    assert {(attempt, wait) for _, attempt, wait in put_off} == {(0, timedelta(seconds=30))}


@pytest.mark.parametrize("is_at_home", [True, False], ids=["in its lane", "without one, by SQL"])
def test_jobs_in_order_keep_their_times_while_nobody_serves_them(
    database: str, *, is_at_home: bool
) -> None:
    """Red when they are put off: those that are enqueued meanwhile would run before them."""
    app = Relevo()
    app.job("ledger.post", queue=QUEUE, ordered=True)(lambda _ctx: None)
    (kind,) = app.registry.kinds()
    lane = kind.lane("account 7") if is_at_home else NO_LANE
    with psycopg.connect(database, options=ENGINES_LEVEL) as owner:
        run(owner, declare_limits([kind]))
        a_worker(owner, kinds=("served",))
        for _ in range(3):
            a_job(owner, kind=kind.name, lane=lane, lane_key="account 7")

        assert run(owner, postpone_unserved(QUEUE)) == {}


def test_a_queue_that_nobody_serves_at_all_is_left_as_it_is(connection: psycopg.Connection) -> None:
    a_job(connection, kind="unknown")

    assert run(connection, postpone_unserved(QUEUE)) == {}


def test_looking_for_unserved_kinds_holds_no_job_that_somebody_serves(database: str) -> None:
    """Red when the look locks the head of the queue: an idle worker's claim would find nothing."""
    with psycopg.connect(database, autocommit=True, options=ENGINES_LEVEL) as owner:
        worker = a_worker(owner)
        some_jobs(owner, 5)
        a_job(owner, kind="unknown")
        with psycopg.connect(database, options=ENGINES_LEVEL) as looking:
            postponed = run(looking, postpone_unserved(QUEUE))

            taken = claim_some(owner, worker)

    assert postponed == {"unknown": 1}
    assert len(taken) == 5
