"""Each invariant accepts what the engine does, and names what it must never do."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from faults import broken_rules, broken_starts
from faults.broken_rules import OTHER
from faults.checker import INVARIANTS, check
from faults.clean_tale import a_clean_tale
from faults.evidence.records import Pause
from faults.tale import MILLISECOND, Break, Tale, done, named, running


def test_what_the_engine_does_breaks_no_promise() -> None:
    assert check(a_clean_tale().history()) == []


BROKEN = [
    pytest.param(name.partition("_")[0].upper(), breaks, id=name)
    for name, breaks in {**vars(broken_starts), **vars(broken_rules)}.items()
    if name[0] == "i" and name[1].isdigit()
]


@pytest.mark.parametrize(("invariant", "breaks"), BROKEN)
def test_a_broken_promise_is_named_by_its_invariant(invariant: str, breaks: Break) -> None:
    tale = Tale()

    history = breaks(tale) or tale.history()

    assert named(history) == {invariant}
    assert named(history, allow={invariant}) == set()


def test_every_invariant_has_at_least_two_ways_of_being_broken() -> None:
    names = [param.values[0] for param in BROKEN]

    cycles = {"I13"}
    assert {name for name in names if names.count(name) >= 2} == INVARIANTS.keys() - cycles


def test_what_waits_for_something_with_a_name_is_at_rest() -> None:
    tale = Tale()
    tale.enqueue(1, available_at=tale.now * 2)
    tale.enqueue(2, queue="paused")
    tale.enqueue(3, kind="nobody.knows")
    tale.enqueue(4, queue="shut")
    tale.limit("queue", "shut", 0, id=1)
    tale.enqueue(5, queue="slow")
    tale.limit("queue", "slow", 0, measure="starts", seconds=1.0, id=2)
    tale.limit("lane", "ordered", measure="order", id=3)
    tale.enqueue(6, kind="ordered", lane=OTHER, available_at=tale.now * 2, attempt=0)
    tale.enqueue(7, kind="ordered", lane=OTHER)
    tale.session(2, queues=("paused", "shut", "slow", "default"), kinds=("test.work", "ordered"))
    tale.claim(6, worker=2)
    tale.go_back(6, available_at=tale.now * 2)

    history = tale.history(pauses=(Pause("queue", "paused"),))

    assert check(history, allow={"I10"}) == []
    assert named(replace(history, pauses=())) == {"I2"}


def test_a_session_may_end_before_its_time_by_its_own_word() -> None:
    tale = Tale()
    tale.session(2)
    for job in (1, 2):
        running(tale, job)
    # What it held without knowing it is left to the rescue.
    tale.end(1, shortened_by=("relevo rescue w1", "psql", "relevo caller me"))
    for job in (1, 2):
        tale.go_back(job, "lost")
        tale.claim(job, worker=2)
        tale.finish(job)

    assert named(tale.history()) == set()


def test_a_run_that_has_not_come_to_rest_may_have_jobs_under_way() -> None:
    tale = Tale()
    tale.enqueue(1)
    running(tale, 2)

    assert named(tale.history(), quiescent=False) == set()


def test_an_unknown_transaction_is_there_or_not() -> None:
    tale = Tale()
    for ref in ("a", "b", "c", "d"):
        tale.note("intent", ref=ref, unit="there" if ref < "c" else "absent")
    tale.note("unknown", unit="there")
    tale.note("unknown", unit="absent")
    done(tale, 1, ref="a")
    done(tale, 2, ref="b")
    # In one transaction, as the enqueuer had it.
    first = tale.events[0]
    tale.events[:] = [
        replace(event, xact=first.xact) if event.op == "insert" else event for event in tale.events
    ]

    assert named(tale.history()) == set()


def test_a_held_key_answers_with_its_holder() -> None:
    tale = Tale()
    for ref in ("a", "b"):
        tale.note("intent", ref=ref, key="k")
    done(tale, ref="a", live_key="k")
    tale.note("enqueued", ref="a", job_id=1, created=True)
    tale.note("enqueued", ref="b", job_id=1, created=False)

    assert named(tale.history()) == set()


def test_a_holder_refuses_until_others_can_see_that_it_let_go() -> None:
    tale = Tale()
    # One was pruned meanwhile, one's time was over, one had written its end and not committed it.
    done(tale, 1, key="pruned")
    done(tale, 2, key="expired")
    running(tale, 3, live_key="ended")
    tale.finish(3)
    ended = tale.last(3).xact
    done(tale, 4)
    for key in ("pruned", "expired", "ended"):
        tale.note("intent", ref=key, key=key, kind="test.work")
    tale.prune(1)
    tale.change(2, key=None)
    for job, key in ((1, "pruned"), (2, "expired"), (3, "ended")):
        tale.note("enqueued", ref=key, job_id=job, created=False)
    tale.events[:] = [
        replace(event, snapshot=(ended, event.xact, frozenset((ended,)))) for event in tale.events
    ]

    assert named(tale.history()) == set()


def test_a_refusal_that_names_nobody_needs_a_holder_or_an_index_of_the_application() -> None:
    tale = Tale()
    running(tale, 1, live_key="k")
    tale.note("intent", ref="a", key="k", kind="test.work")
    # It let go between the refusal and the look for its name.
    tale.finish(1)
    tale.note("enqueued", ref="a", job_id=None, created=False)
    tale.note("intent", ref="b", kind="cycle.dispatched")
    tale.note("enqueued", ref="b", job_id=None, created=False)

    assert named(tale.history()) == set()


def test_a_key_goes_from_one_job_to_the_next() -> None:
    tale = Tale()
    done(tale, 1, live_key="k")
    tale.enqueue(2, waiting_key="w")
    tale.claim(2)
    tale.enqueue(3, waiting_key="w")
    tale.finish(2)
    done(tale, 4, live_key="k")
    tale.claim(3)
    tale.finish(3)
    done(tale, 5, key="e")
    tale.change(5, key=None)
    done(tale, 6, key="e")

    assert named(tale.history()) == set()


def test_limits_count_what_falls_under_them_and_nothing_else() -> None:
    tale = Tale()
    running(tale, 1)
    running(tale, 2)
    # More run than are allowed now; nothing starts until fewer do.
    tale.limit("queue", "default", 2, id=1)
    tale.limit("queue", "default", 1, id=1, op="update")
    tale.limit("tenant", "*", 1, id=2)
    tale.limit("tenant", str(OTHER), 2, id=3)
    tale.limit("lane", "laned", 1, id=4)
    tale.limit("kind", "timed", 2, measure="starts", seconds=0.005, id=5)
    tale.finish(1)
    tale.finish(2)
    done(tale, 3)
    elsewhere = {"queue": "elsewhere", "tenant_id": OTHER}
    running(tale, 4, **elsewhere)
    done(tale, 5, **elsewhere)
    tale.finish(4)
    tale.limit("tenant", str(OTHER), 2, id=3, op="delete")
    for job, lane in ((6, 6), (7, 7)):
        tale.enqueue(job, queue="laned", kind="laned", lane=UUID(int=lane), tenant_id=uuid4())
        tale.claim(job)
    for job in (6, 7):
        tale.finish(job)
    for job in range(10, 14):
        done(tale, job, kind="timed", queue="timed")
        tale.now += 2 * MILLISECOND
    tale.limit("queue", "default", 1, id=1, op="delete")
    tale.limit("tenant", "*", 1, id=2, op="delete")
    for job in (20, 21):
        running(tale, job)
    for job in (20, 21):
        tale.finish(job)

    assert named(tale.history()) == set()


def test_a_limit_of_starts_does_not_know_what_ended_while_it_was_set() -> None:
    tale = Tale()
    running(tale, 1)
    tale.limit("queue", "default", 1, measure="starts", seconds=1.0)
    tale.finish(1)
    done(tale, 2)

    assert named(tale.history()) == set()


def test_an_ordered_lane_goes_by_what_was_surely_there() -> None:
    tale = Tale()
    tale.limit("lane", "test.work", measure="order")
    due = tale.now
    # Two lanes do not wait for each other, nor for what is not due yet.
    running(tale, 1, lane=OTHER)
    done(tale, 2, lane=UUID(int=3))
    tale.go_back(1, available_at=due)
    tale.claim(1)
    tale.finish(1)
    tale.enqueue(3, lane=OTHER, available_at=due * 2)
    tale.enqueue(4, lane=OTHER, priority=1)
    done(tale, 5, lane=OTHER)
    tale.claim(4)
    tale.finish(4)
    # Due earlier, and committed when the claim had begun already: nobody had seen it.
    tale.enqueue(6, lane=OTHER, available_at=due)
    unseen = tale.last(6).xact
    tale.enqueue(7, lane=OTHER)
    tale.claim(7)
    tale.events[-2:] = [
        replace(event, snapshot=(unseen, event.xact, frozenset((unseen,))))
        for event in tale.events[-2:]
    ]
    tale.finish(7)
    tale.claim(6)
    tale.finish(6)

    assert named(tale.history()) == set()


def test_an_order_that_is_declared_late_begins_with_what_runs() -> None:
    tale = Tale()
    for job in (1, 2, 3, 4):
        tale.enqueue(job, lane=OTHER)
    tale.claim(1)
    tale.go_back(1)
    for job in (3, 2):
        tale.claim(job)
    tale.limit("lane", "test.work", measure="order")
    done(tale, 5, lane=UUID(int=9))
    # The third ran beside the second, which was due first and keeps its turn.
    for job in (3, 2):
        tale.go_back(job, available_at=tale.last(job).available_at)
    for job in (2, 1, 3, 4):
        tale.claim(job)
        tale.finish(job)

    assert named(tale.history()) == set()


def test_an_answer_about_a_whole_transaction_leaves_refused_keys_open() -> None:
    tale = Tale()
    tale.note("intent", ref="a", unit="u")
    tale.note("intent", ref="b", unit="u", key="held")
    done(tale, ref="a")
    tale.note("enqueued", unit="u")

    assert named(tale.history()) == set()


def test_repeated_deliveries_under_one_key_are_allowed() -> None:
    tale = Tale()
    running(tale)
    tale.note("delivered", job_id=1, key="a")
    tale.go_back(1)
    tale.claim(1)
    tale.note("delivered", job_id=1, key="a")
    tale.finish(1)

    assert named(tale.history()) == set()


def test_clocks_that_are_an_hour_apart_are_not_compared() -> None:
    tale = Tale()
    hour = 3600 * 1000 * MILLISECOND
    tale.note("intent", ref="a", at=tale.now + hour)
    running(tale, ref="a")
    tale.note("start", job_id=1, attempt=1, at=tale.now - hour)
    tale.note("end", job_id=1, attempt=1, at=tale.now + hour)
    tale.finish(1)

    assert named(tale.history()) == set()


def test_a_violation_tells_the_story_of_its_job() -> None:
    tale = Tale()
    tale.note("intent", ref="a")
    broken_starts.i5_an_effect_twice(tale)

    (violation,) = check(tale.history(), allow={"I1"})

    text = str(violation)
    assert text.startswith("I5 (fencing")
    assert "job 1 has 2 effects" in text
    assert text.count("\n") == 2
