"""Limits are set, lowered, raised and removed while claims run, and hold from their commit on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from factories import (
    KIND,
    QUEUE,
    a_kind,
    a_tenant,
    a_worker,
    claim_some,
    settle_some,
    some_jobs,
    states,
    value,
)
from limiting import (
    connection,
    in_lane,
    limit,
    running,
    sessions,
    stopped_after_its_look,
    wait_for_a_waiter,
)
from relevo.db.drivers import run
from relevo.engine.limits import declare_limits, list_limits, remove_limit, set_limit
from relevo.model.limit import Limit
from relevo.model.ring import Ring
from relevo.model.scope import Scope

__all__ = ["connection", "sessions"]

pytestmark = pytest.mark.core

Connect = Callable[[], psycopg.Connection]


def test_no_claim_that_knew_more_commits_after_a_limit_was_lowered(
    sessions: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when only a new limit waits for the claims under way."""
    mine, setting, look = sessions(), sessions(), sessions()
    worker = a_worker(look)
    limit(look, Scope.QUEUE, QUEUE, 6)
    some_jobs(look, 20)
    settle_some(look, worker, claim_some(look, worker))
    with ThreadPoolExecutor(1) as pool:
        with stopped_after_its_look(sessions, monkeypatch, lambda: claim_some(mine, worker)):
            lowering = pool.submit(limit, setting, Scope.QUEUE, QUEUE, 2)
            wait_for_a_waiter(look, lowering, "relation")
            done_before_the_claim = lowering.done()
        lowering.result(30)

    assert not done_before_the_claim
    late = "SELECT count(*) FROM relevo.jobs AS j, relevo.limits AS l WHERE j.started_at > l.set_at"
    assert value(look, late) == 0
    assert claim_some(look, worker) == []


def test_below_a_lowered_limit_others_start_though_the_last_permit_is_still_in_use(
    connection: psycopg.Connection,
) -> None:
    """Red when nothing starts until every number above is back: a long job may have one."""
    worker = a_worker(connection)
    limit(connection, Scope.QUEUE, QUEUE, 6)
    some_jobs(connection, 30)
    claimed = claim_some(connection, worker)
    last = value(connection, "SELECT job_id FROM relevo.permits WHERE number = 6")
    limit(connection, Scope.QUEUE, QUEUE, 3)

    counts = []
    for job in sorted(claimed, key=lambda job: job.id == last)[:5]:
        settle_some(connection, worker, [job])
        claim_some(connection, worker)
        counts.append(states(connection)["running"])

    assert counts == [5, 4, 3, 3, 3]


@pytest.mark.parametrize("_turn", range(4))
def test_two_claims_below_a_lowered_limit_do_not_both_take_what_is_left(
    sessions: Connect, monkeypatch: pytest.MonkeyPatch, _turn: int
) -> None:
    """Red, in two turns of three, when claims that may take some of several free permits do not
    all begin with the same."""
    mine, others, look = sessions(), sessions(), sessions()
    workers = [a_worker(look), a_worker(look)]
    limit(look, Scope.QUEUE, QUEUE, 6)
    some_jobs(look, 30)
    claimed = claim_some(look, workers[0])
    last = value(look, "SELECT job_id FROM relevo.permits WHERE number = 6")
    settle_some(look, workers[0], [job for job in claimed if job.id != last])
    limit(look, Scope.QUEUE, QUEUE, 3)

    with stopped_after_its_look(sessions, monkeypatch, lambda: claim_some(mine, workers[0])):
        claim_some(others, workers[1])

    assert running(look) == 3


def test_a_tenant_that_loses_its_own_limit_comes_under_that_of_each_with_what_it_runs(
    sessions: Connect,
) -> None:
    """Red when the limit of each tenant does not know what started under the own one."""
    look = sessions()
    worker, tenant = a_worker(look), a_tenant(look)
    limit(look, Scope.TENANT, "*", 3)
    limit(look, Scope.TENANT, str(tenant), 5)
    some_jobs(look, 20, tenant_id=tenant)
    claimed = claim_some(look, worker)
    with look.transaction():
        assert run(look, remove_limit(Scope.TENANT, str(tenant)))

    none = claim_some(look, worker)
    settle_some(look, worker, claimed[:4])
    more = claim_some(look, worker)

    assert (len(claimed), none, len(more)) == (5, [], 2)
    ((most, used),) = [(row.most, row.used) for row in run(look, list_limits())]
    assert (most, used) == (3, 3)


@pytest.mark.parametrize("level", list(psycopg.IsolationLevel), ids=lambda level: level.name)
def test_what_runs_is_counted_at_every_isolation_level(
    sessions: Connect, level: psycopg.IsolationLevel
) -> None:
    """Red when the count uses the snapshot from before the claims that were waited for."""
    claiming, setting, look = sessions(), sessions(), sessions()
    setting.isolation_level = level
    some_jobs(look, 20)
    worker, ring = a_worker(look), Ring()
    ring.end_look(1e9, is_limited=False)
    with ThreadPoolExecutor(1) as pool:
        claiming.execute("BEGIN")
        under_way = claim_some(claiming, worker, 3, ring=ring)
        setter = pool.submit(limit, setting, Scope.QUEUE, QUEUE, 4)
        wait_for_a_waiter(look, setter, "relation")
        claiming.execute("COMMIT")
        setter.result(30)

    assert len(under_way) == 3
    assert len(claim_some(look, worker)) == 1


def test_a_snapshot_from_before_is_refused_where_it_would_miss_what_runs(
    sessions: Connect,
) -> None:
    """Red when a transaction that cannot see the running jobs sets a limit all the same."""
    setting, look = sessions(), sessions()
    setting.execute("SET default_transaction_isolation = 'serializable'")
    some_jobs(look, 20)
    worker, ring = a_worker(look), Ring()
    ring.end_look(1e9, is_limited=False)

    setting.execute("BEGIN")
    setting.execute("SELECT count(*) FROM relevo.jobs")
    claim_some(look, worker, 3, ring=ring)
    with pytest.raises(psycopg.errors.ActiveSqlTransaction):
        run(setting, set_limit(Scope.QUEUE, QUEUE, 4))
    setting.execute("ROLLBACK")

    assert run(look, list_limits()) == []


def test_a_limit_that_is_set_and_rolled_back_leaves_nothing(sessions: Connect) -> None:
    look, setting = sessions(), sessions()
    worker, ring = a_worker(look), Ring()
    some_jobs(look, 20)
    ring.end_look(1e9, is_limited=False)
    claimed = claim_some(look, worker, 3, ring=ring)
    setting.execute("BEGIN")
    run(setting, set_limit(Scope.QUEUE, QUEUE, 4))
    setting.execute("ROLLBACK")

    assert len(claim_some(look, worker, 10, ring=ring)) == 10
    assert len(claimed) == 3
    assert value(look, "SELECT count(*) FROM relevo.permits") == 0


def test_a_limit_that_is_removed_and_set_again_counts_what_runs(sessions: Connect) -> None:
    look = sessions()
    worker = a_worker(look)
    some_jobs(look, 20)
    limit(look, Scope.QUEUE, QUEUE, 4)
    claim_some(look, worker)
    with look.transaction():
        run(look, remove_limit(Scope.QUEUE, QUEUE))
    claim_some(look, worker, 2)
    limit(look, Scope.QUEUE, QUEUE, 5)

    assert claim_some(look, worker) == []
    assert running(look) == 6


def test_what_an_operator_sets_while_a_worker_declares_stays(sessions: Connect) -> None:
    """Red when what stood before the lock decides what is changed after it."""
    operator, declaring, look = sessions(), sessions(), sessions()

    def declare() -> None:
        with declaring.transaction():
            run(declaring, declare_limits([a_kind(limits=(Limit(4),))]))

    with ThreadPoolExecutor(1) as pool:
        with operator.transaction():
            run(operator, set_limit(Scope.KIND, KIND, 9, actor="ada"))
            declared = pool.submit(declare)
            wait_for_a_waiter(look, declared, "relation")
        declared.result(30)

    assert [(row.most, row.actor) for row in run(look, list_limits())] == [(9, "ada")]


def test_what_an_operator_takes_over_while_a_worker_takes_it_back_stays(
    sessions: Connect,
) -> None:
    operator, declaring, look = sessions(), sessions(), sessions()
    with look.transaction():
        run(look, declare_limits([a_kind(limits=(Limit(4),))]))

    def declare() -> None:
        with declaring.transaction():
            run(declaring, declare_limits([a_kind()]))

    with ThreadPoolExecutor(1) as pool:
        with operator.transaction():
            run(operator, set_limit(Scope.KIND, KIND, 9, actor="ada"))
            declared = pool.submit(declare)
            wait_for_a_waiter(look, declared, "relation")
        declared.result(30)

    assert [(row.most, row.actor) for row in run(look, list_limits())] == [(9, "ada")]


def test_two_workers_that_declare_the_same_for_the_first_time_agree(sessions: Connect) -> None:
    first, second, look = sessions(), sessions(), sessions()
    kinds = [a_kind(limits=(Limit(4), Limit(2, per="lane")), ordered=True)]

    def declare() -> bool:
        with second.transaction():
            return run(second, declare_limits(kinds))

    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            run(first, declare_limits(kinds))
            other = pool.submit(declare)
            wait_for_a_waiter(look, other, "relation")
        other.result(30)

    assert len(run(look, list_limits())) == 3


def test_permits_that_are_removed_while_a_claim_makes_the_same_do_not_deadlock(
    sessions: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red when permits are deleted before the claims under way have been waited for."""
    mine, others, declaring, look = sessions(), sessions(), sessions(), sessions()
    workers = [a_worker(look), a_worker(look)]
    with look.transaction():
        run(look, declare_limits([a_kind(limits=(Limit(4),))]))
    for key in "abcdefgh":
        in_lane(look, key)

    def declare() -> None:
        with declaring.transaction():
            run(declaring, declare_limits([a_kind(limits=(Limit(3, per="lane"),))]))

    with ThreadPoolExecutor(1) as pool:
        with stopped_after_its_look(
            sessions, monkeypatch, lambda: claim_some(mine, workers[0], 2)
        ) as claim:
            # Another claim makes the permits that the first one is about to make.
            claim_some(others, workers[1], 2)
            declared = pool.submit(declare)
            wait_for_a_waiter(look, declared, "relation")
        claim.result(30)
        declared.result(30)

    assert {row.scope for row in run(look, list_limits())} == {Scope.LANE}


def test_a_longer_time_counts_from_its_commit(sessions: Connect) -> None:
    look = sessions()
    worker = a_worker(look)
    some_jobs(look, 20)
    limit(look, Scope.QUEUE, QUEUE, 2, within=timedelta(seconds=1))
    settle_some(look, worker, claim_some(look, worker))
    look.execute("UPDATE relevo.permits SET taken_at = taken_at - interval '5 seconds'")
    limit(look, Scope.QUEUE, QUEUE, 2, within=timedelta(minutes=1))

    assert claim_some(look, worker) == []
