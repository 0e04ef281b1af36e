"""In an ordered lane nothing overtakes: neither a locked head, nor a late commit, nor a race."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_job,
    a_worker,
    claim_some,
    make_due,
    settle_some,
    some_jobs,
)
from limiting import (
    connection,
    in_lane,
    know,
    limit,
    ordered,
    running,
    sessions,
    stopped_after_its_look,
)
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.again import requeue
from relevo.model.ids import lane_of
from relevo.model.ring import Ring
from relevo.model.scope import Scope
from relevo.model.settlement import Action

__all__ = ["connection", "sessions"]

pytestmark = pytest.mark.core

OTHER = "test.other"

Connect = Callable[[], psycopg.Connection]


def test_a_head_that_somebody_has_locked_is_not_overtaken(sessions: Connect) -> None:
    """Red when the lane's first is picked with SKIP LOCKED: the second would be the first."""
    look, holding = sessions(), sessions()
    worker = a_worker(look)
    ordered(look)
    first, second = in_lane(look, "a"), in_lane(look, "a")
    other = in_lane(look, "b")

    with holding.transaction():
        holding.execute("SELECT FROM relevo.jobs WHERE id = %s FOR UPDATE", [first])
        beside = claim_some(look, worker)
    after = claim_some(look, worker)

    assert [job.id for job in beside] == [other]
    assert [job.id for job in after] == [first]
    assert second not in {job.id for job in [*beside, *after]}


def test_nothing_starts_again_beside_those_that_ran_when_the_order_was_declared(
    connection: psycopg.Connection,
) -> None:
    """Red when a retry looks at its own permit alone."""
    worker, ring = a_worker(connection), Ring()
    jobs = [in_lane(connection, "a") for _ in range(3)]
    claimed = claim_some(connection, worker, 2)
    ordered(connection)
    settle_some(connection, worker, claimed[:1], Action.RETRIED, delay=timedelta(0))
    make_due(connection, jobs[0])
    # A worker that knows the lane and asks for it without a walk.
    know(ring, lane_of(KIND, "a"))

    beside = claim_some(connection, worker, ring=ring)
    settle_some(connection, worker, claimed[1:])
    after = claim_some(connection, worker, ring=ring)

    assert [job.id for job in claimed] == jobs[:2]
    assert beside == []
    assert [job.id for job in after] == jobs[:1]


def test_a_finished_job_that_is_asked_for_again_does_not_run_beside_the_next(
    sessions: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when a job that has its turn starts without a mark on the permit of its turn."""
    mine, others, look = sessions(), sessions(), sessions()
    workers = [a_worker(look), a_worker(look)]
    ordered(look)
    first, _ = in_lane(look, "a"), in_lane(look, "a")
    settle_some(look, workers[0], claim_some(look, workers[0]))

    with stopped_after_its_look(sessions, monkeypatch, lambda: claim_some(mine, workers[0])):
        with look.transaction():
            run(look, requeue(DEFAULT_TENANT, first))
        # The first claim holds the second job and has seen that the turn is free.
        again = claim_some(others, workers[1])

    assert [job.id for job in again] == [first]
    assert running(look) == 1


def test_a_job_that_commits_late_comes_before_those_that_were_due_after_it(
    sessions: Connect,
) -> None:
    """Red when the lane is read behind the place that the last claim reached."""
    look, late = sessions(), sessions()
    worker, ring = a_worker(look), Ring()
    ordered(look)
    late.execute("BEGIN")
    first = in_lane(late, "a")
    second = in_lane(look, "a")
    in_lane(look, "a")
    taken = claim_some(look, worker, ring=ring)
    late.execute("COMMIT")
    settle_some(look, worker, taken)

    then = claim_some(look, worker, ring=ring)

    assert [job.id for job in taken] == [second]
    assert [job.id for job in then] == [first]


def test_a_turn_that_cannot_be_taken_now_holds_up_no_other_kind(
    connection: psycopg.Connection,
) -> None:
    """Red when it stands first in the line of its queue's permits without a chance to start."""
    worker = a_worker(connection)
    ordered(connection)
    jobs = [in_lane(connection, key) for key in "ab"]
    claimed = claim_some(connection, worker)
    limit(connection, Scope.KIND, KIND, 1)
    limit(connection, Scope.QUEUE, QUEUE, 1)
    settle_some(connection, worker, claimed[1:], Action.RETRIED, delay=timedelta(0))
    make_due(connection, jobs[1])
    limit(connection, Scope.QUEUE, QUEUE, 2)
    some_jobs(connection, 3, kind=OTHER)

    taken = claim_some(connection, worker, 1, kinds=(KIND, OTHER))

    assert [job.kind for job in taken] == [OTHER]


def test_a_turn_is_taken_from_the_queue_to_which_its_job_was_moved(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ordered(connection)
    first, second = in_lane(connection, "a"), in_lane(connection, "a")
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED)
    connection.execute("UPDATE relevo.jobs SET queue = 'side' WHERE id = %s", [first])
    make_due(connection, first)

    here = claim_some(connection, worker)
    there = claim_some(connection, worker, queue="side")
    while_it_runs = claim_some(connection, worker)
    settle_some(connection, worker, there)
    after = claim_some(connection, worker)

    assert (here, while_it_runs) == ([], [])
    assert [job.id for job in there] == [first]
    assert [job.id for job in after] == [second]


def test_a_job_in_its_turn_that_is_deleted_by_hand_lets_the_next_one_go(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ordered(connection)
    first, second = in_lane(connection, "a"), in_lane(connection, "a")
    claimed = claim_some(connection, worker)
    settle_some(connection, worker, claimed, Action.RETRIED, delay=timedelta(hours=1))
    assert claim_some(connection, worker) == []
    connection.execute("DELETE FROM relevo.attempts")
    connection.execute("DELETE FROM relevo.jobs WHERE id = %s", [first])

    assert [job.id for job in claim_some(connection, worker)] == [second]


def test_inside_a_lane_the_urgent_come_first_and_wait_for_the_one_that_runs(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ordered(connection)
    low, _ = in_lane(connection, "a", priority=3), in_lane(connection, "a", priority=3)
    running_now = claim_some(connection, worker)
    urgent = in_lane(connection, "a", priority=0)

    beside = claim_some(connection, worker)
    settle_some(connection, worker, running_now)
    after = claim_some(connection, worker)

    assert [job.id for job in running_now] == [low]
    assert beside == []
    assert [job.id for job in after] == [urgent]


def test_rows_by_sql_in_a_lane_of_another_kind_keep_the_order_of_their_own(
    connection: psycopg.Connection,
) -> None:
    worker = a_worker(connection)
    ordered(connection)
    lane = lane_of(KIND, "a")
    jobs = [in_lane(connection, "a"), in_lane(connection, "a")]
    stranger = a_job(connection, kind=OTHER, lane=lane)

    started = []
    for _ in range(6):
        ring = Ring()
        claimed = claim_some(connection, worker, kinds=(KIND, OTHER), ring=ring)
        started.append([job.id for job in claimed])
        settle_some(connection, worker, claimed)

    order = [job_id for ids in started for job_id in ids]
    assert sorted(order) == [*jobs, stranger]
    assert order.index(jobs[0]) < order.index(jobs[1])
    assert max(map(len, started)) == 1
