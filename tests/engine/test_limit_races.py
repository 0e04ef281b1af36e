"""A limit is not exceeded by two claims, two sessions or two moments that meet.

Each test stops one side between its snapshot and its lock, lets the other side commit, and
lets the first go on: what it saw is out of date, and what it does must not be.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle

import pytest

from factories import KIND, QUEUE, a_kind, a_worker, claim_some, settle_some, some_jobs, value
from limiting import in_lane, know, limit, running, sessions, stopped_after_its_look
from relevo.db.drivers import run
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from relevo.engine.limits import declare_limits, list_limits, set_limit
from relevo.model.ids import lane_of
from relevo.model.ring import Ring
from relevo.model.scope import Scope

__all__ = ["sessions"]

pytestmark = pytest.mark.core


@pytest.mark.parametrize("given_before", ["", "old permits"])
@pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.KIND, Scope.TENANT, Scope.LANE])
def test_two_claims_that_saw_the_same_free_permits_do_not_both_take_them(
    sessions, monkeypatch, scope: Scope, given_before: str
) -> None:
    """The permit is compared again under its lock, or made under a unique key; drop either: red."""
    mine, others, look = sessions(), sessions(), sessions()
    name = {Scope.QUEUE: QUEUE, Scope.TENANT: "*"}.get(scope, KIND)
    some_jobs(look, 50, lane=str(lane_of(KIND, "a")), lane_key="a")
    with look.transaction():
        run(look, set_limit(scope, name, 4))
    workers = [a_worker(look), a_worker(look)]
    if given_before:
        settle_some(look, workers[0], claim_some(look, workers[0]))

    with stopped_after_its_look(
        sessions, monkeypatch, lambda: claim_some(mine, workers[0], 3)
    ) as first:
        second = claim_some(others, workers[1], 3)

    assert len(second) == 3
    assert running(look) <= 4
    # What the race cost one claim the next one takes: nothing is lost for ever.
    claim_some(mine, workers[0])
    assert running(look) == 4
    assert len(first.result()) + len(second) <= 4


@pytest.mark.parametrize("others_run", [0, 1], ids=["old permit", "new permit"])
def test_a_claim_that_loses_one_permit_to_another_uses_up_none_of_its_others(
    sessions, monkeypatch, others_run: int
) -> None:
    """Red when a permit that was locked is marked before it is known that all were got."""
    mine, others, look = sessions(), sessions(), sessions()
    workers, rings = [a_worker(look), a_worker(look)], [Ring(), Ring()]
    limit(look, Scope.LANE, KIND, 1, within=timedelta(hours=1))
    limit(look, Scope.QUEUE, QUEUE, 1)
    for key in "aabbc":
        in_lane(look, key)
    for ring, key in zip([Ring(), Ring(), Ring()][: 2 + others_run], "abc", strict=False):
        know(ring, lane_of(KIND, key))
        claimed = claim_some(look, workers[0], ring=ring)
        settle_some(look, workers[0], claimed if key != "c" else [])
    # The last one to start runs on, and its queue has one permit more that nobody has had.
    limit(look, Scope.QUEUE, QUEUE, 1 + others_run)
    look.execute("UPDATE relevo.permits SET taken_at = taken_at - interval '2 hours'")
    for ring, key in zip(rings, "ab", strict=True):
        know(ring, lane_of(KIND, key))

    with stopped_after_its_look(
        sessions, monkeypatch, lambda: claim_some(mine, workers[0], ring=rings[0])
    ) as lost:
        won = claim_some(others, workers[1], ring=rings[1])

    assert (len(won), lost.result()) == (1, [])
    used = {row.scope: row.used for row in run(look, list_limits())}
    assert used == {Scope.LANE: 1, Scope.QUEUE: 1 + others_run}


def test_an_ordered_lane_gives_one_job_to_two_claims(sessions, monkeypatch) -> None:
    mine, others, look = sessions(), sessions(), sessions()
    some_jobs(look, 5, lane=str(lane_of(KIND, "a")), lane_key="a")
    with look.transaction():
        run(look, declare_limits([a_kind(ordered=True)]))
    workers = [a_worker(look), a_worker(look)]
    settle_some(look, workers[0], claim_some(look, workers[0]))

    with stopped_after_its_look(sessions, monkeypatch, lambda: claim_some(mine, workers[0])):
        claim_some(others, workers[1])
        # The first one's lock on the head keeps the second from it, or the other way round.
        assert running(look) <= 1

    assert running(look) <= 1
    claim_some(mine, workers[0])
    assert running(look) == 1


def test_a_claim_that_began_before_the_limit_counts_or_takes_nothing(sessions) -> None:
    """Setting a limit waits for claims under way and holds back new ones; drop the lock: red."""
    claiming, setting, look = sessions(), sessions(), sessions()
    some_jobs(look, 50)
    worker, ring = a_worker(look), Ring()
    ring.end_look(time.monotonic(), is_limited=False)
    with ThreadPoolExecutor(2) as pool:
        claiming.execute("BEGIN")
        under_way = claim_some(claiming, worker, 3, ring=ring)

        def set_in_transaction() -> None:
            with setting.transaction():
                run(setting, set_limit(Scope.QUEUE, QUEUE, 4))

        setter = pool.submit(set_in_transaction)
        while not value(look, "SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert not setter.done()
            time.sleep(0.01)
        # A plain claim that arrives now waits behind the limit, and then sees it.
        late = pool.submit(claim_some, sessions(), worker, 10, ring=ring)
        claiming.execute("COMMIT")
        setter.result(30)
        found = late.result(30)

    assert len(under_way) == 3
    assert len(found) <= 1
    assert running(look) <= 4
    claim_some(look, worker)
    assert running(look) == 4


def test_an_open_rescue_does_not_hold_up_a_claim_under_limits(sessions) -> None:
    """Nothing gives permits back, so there is no row that rescue and claim both write."""
    rescuing, claiming, look = sessions(), sessions(), sessions()
    some_jobs(look, 50, lane=str(lane_of(KIND, "a")), lane_key="a")
    with look.transaction():
        run(look, set_limit(Scope.QUEUE, QUEUE, 10))
        run(look, set_limit(Scope.LANE, KIND, 8))
    dead, worker = a_worker(look, lease=-1), a_worker(look)
    lost = claim_some(look, dead, 3)
    run(rescuing, end_expired_sessions())
    rescuing.execute("BEGIN")
    run(rescuing, rescue_lost_jobs())
    claiming.execute("SET lock_timeout = '1ms'")

    beside = claim_some(claiming, worker)
    rescuing.execute("COMMIT")
    after = claim_some(claiming, worker)

    assert (len(lost), len(beside), len(after)) == (3, 5, 3)


def test_claims_side_by_side_never_exceed_and_use_up_their_limits(  # noqa: C901 -- three roles
    sessions,
) -> None:
    """Eight sessions, three kinds of limit at once, until all is done."""
    look = sessions()
    for key in "abcde":
        some_jobs(look, 60, lane=str(lane_of(KIND, key)), lane_key=key)
    with look.transaction():
        run(look, set_limit(Scope.QUEUE, QUEUE, 9))
        run(look, set_limit(Scope.LANE, KIND, 2))
    look.execute("CREATE TABLE public.seen (queue_count int, lane_count int)")
    look.execute("CREATE TABLE public.starts (job_id bigint)")
    stop, failures = threading.Event(), []

    def work() -> None:
        connection = sessions()
        worker, ring = a_worker(connection), Ring()
        sizes = cycle([1, 3, 10])
        while not stop.is_set():
            ring.rest()
            jobs = claim_some(connection, worker, next(sizes), ring=ring)
            for job in jobs:
                connection.execute("INSERT INTO public.starts VALUES (%s)", [job.id])
            settle_some(connection, worker, jobs)

    def sample() -> None:
        connection = sessions()
        while not stop.is_set():
            connection.execute(
                "INSERT INTO public.seen SELECT coalesce(sum(n), 0), coalesce(max(n), 0) FROM"
                " (SELECT count(*) AS n FROM relevo.jobs WHERE worker IS NOT NULL"
                " GROUP BY lane) AS lanes"
            )

    def guarded(target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:  # noqa: BLE001 -- shown by the test
            failures.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, args=[target]) for target in [sample, *[work] * 8]]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60
    while not stop.is_set() and time.monotonic() < end:
        if not value(look, "SELECT count(*) FROM relevo.jobs WHERE live"):
            stop.set()
        time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join(30)

    assert failures == []
    assert value(look, "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'") == 300
    assert value(look, "SELECT count(*) = count(DISTINCT job_id) FROM public.starts")
    most = look.execute("SELECT max(queue_count), max(lane_count) FROM public.seen").fetchone()
    assert most[0] <= 9
    assert most[1] <= 2
