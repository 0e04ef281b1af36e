"""What a worker remembers of a queue: lanes and their turns, floors, and when to look beyond."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from factories import KIND, a_claim
from relevo.model.ids import NO_LANE, lane_of
from relevo.model.job import ClaimedJob
from relevo.model.pace import JOB_COST, LOOK_EVERY, LOOK_SOON, STEP_COST, SWEEP_EVERY, SWEEP_SHARE
from relevo.model.ring import (
    DRY_LANES,
    DRY_TURNS,
    KEPT_LANES,
    KNOWN_LANES,
    LANES_A_ROUND,
    LIMITED_LANES,
    PRIORITIES,
    REVERSE_EVERY,
    DueLane,
    Lane,
    Ring,
    Round,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE_ALL = (datetime(1, 1, 1, tzinfo=UTC), 0)


def lane(number: int, key: str | None = None) -> Lane:
    return UUID(int=number), NO_LANE if key is None else lane_of(KIND, key)


def job(whose: Lane, job_id: int = 1, **fields: object) -> ClaimedJob:
    given = {
        "tenant_id": whose[0],
        "lane": whose[1],
        "id": job_id,
        "available_at": NOON,
        "started_at": NOON,
    }
    return a_claim(**{**given, **fields})


def due(whose: Lane, kind: str | None = None, priority: int = 1, number: int = 1) -> DueLane:
    return DueLane(whose, kind, priority, (NOON, number))


def swept(
    ring: Ring, *jobs: ClaimedJob, limit: int = 1000, now: float = 0.0, **more: float
) -> None:
    ring.end_sweep(limit, jobs, now, more.pop("cost", 0.0), **more)


def limited(ring: Ring) -> Ring:
    ring.end_look(0.0, is_limited=True)
    return ring


def begun(ring: Ring, limit: int = 100) -> Round:
    found = ring.begin_round(limit)
    assert found is not None
    return found


def floors(found: Round, whose: Lane) -> list[tuple[datetime, int]]:
    """The floors of a lane, by priority."""
    by_priority = {priority: floor for each, priority, floor in found.probes if each == whose}
    return [by_priority[priority] for priority in PRIORITIES]


# --- Lanes and turns


def test_a_ring_that_knows_no_lane_begins_no_round() -> None:
    assert Ring().begin_round(10) is None


def test_a_round_probes_each_known_lane_at_each_priority() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)))

    found = begun(ring)

    assert [(each, priority) for each, priority, _ in found.probes] == [
        (each, priority) for each in (lane(1), lane(2)) for priority in PRIORITIES
    ]
    assert found.lanes == (lane(1), lane(2))


def test_the_lanes_that_gave_go_behind_the_others() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), job(lane(3)))

    ring.end_round(begun(ring), 1, [job(lane(1))])

    assert begun(ring).lanes == (lane(2), lane(3), lane(1))


def test_a_full_round_keeps_the_turn_of_the_lanes_that_it_may_not_have_met() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), job(lane(3)))

    ring.end_round(begun(ring), 2, [job(lane(1)), job(lane(1), 2)])

    assert begun(ring).lanes == (lane(2), lane(3), lane(1))
    assert ring.sweep_in(0.1) > 0.0


def test_a_round_takes_no_more_lanes_than_it_may() -> None:
    ring = Ring()
    swept(ring, *[job(lane(number)) for number in range(1, LANES_A_ROUND + 9)])

    first = begun(ring, 1000)
    ring.end_round(first, 1000, [job(each) for each in first.lanes])

    assert len(first.lanes) == LANES_A_ROUND
    assert begun(ring).lanes[:8] == tuple(
        lane(number) for number in range(LANES_A_ROUND + 1, LANES_A_ROUND + 9)
    )


def test_tenants_share_the_slots_whatever_the_number_of_their_lanes() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), *[job(lane(2, str(key))) for key in range(4)], share=1)

    found = begun(ring, 80)

    assert dict(zip(found.lanes, found.shares, strict=True))[lane(1)] == 40
    assert sorted(found.shares) == [10, 10, 10, 10, 40]


def test_lanes_that_gave_nothing_last_time_leave_their_share_to_the_others() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)))
    assert begun(ring, 100).shares == (50, 50)

    ring.end_round(begun(ring, 100), 100, [job(lane(1), n) for n in range(50)])

    assert set(begun(ring, 100).shares) == {100}


def test_a_lane_that_gave_less_than_its_share_is_dry_at_once() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), limit=100, share=2)

    assert ring.sweep_in(0.1) == 0.0


def test_dry_lanes_are_forgotten_beyond_a_few_and_the_oldest_first() -> None:
    ring = Ring()
    lanes = [lane(number) for number in range(1, DRY_LANES + 6)]
    swept(ring, *map(job, lanes))

    ring.end_round(begun(ring), 1000, [])

    assert begun(ring).lanes == tuple(lanes[5:])


def test_what_is_forgotten_is_forgotten_whole() -> None:
    """Red when the floor of a lane stays: what comes back there would lie behind it."""
    ring = Ring()
    lanes = [lane(number) for number in range(1, DRY_LANES + 2)]
    swept(ring, *map(job, lanes))
    ring.end_round(begun(ring), 1000, [])
    kept = (len(ring._floors), len(ring._kinds))

    swept(ring, job(lanes[0], priority=0))

    assert kept == (DRY_LANES, DRY_LANES)
    assert floors(begun(ring), lanes[0]) == [(NOON, 1), *[BEFORE_ALL] * 3]


# --- Floors


def test_a_floor_is_the_last_place_that_a_lane_gave_at_a_priority() -> None:
    ring = Ring()
    later = NOON + timedelta(seconds=1)

    swept(
        ring,
        job(lane(1), 7, priority=2),
        job(lane(1), 9, priority=2),
        job(lane(1), 8, priority=2, available_at=later),
        job(lane(1), 3, priority=0),
    )

    assert floors(begun(ring), lane(1)) == [(NOON, 3), BEFORE_ALL, (later, 8), BEFORE_ALL]


def test_a_floor_never_falls_by_what_comes_from_before_it() -> None:
    ring = Ring()
    swept(ring, job(lane(1), 9))

    swept(ring, job(lane(1), 4, available_at=NOON - timedelta(hours=1)))

    assert floors(begun(ring), lane(1))[2] == (NOON, 9)


def test_lanes_have_floors_of_their_own() -> None:
    ring = Ring()

    swept(ring, job(lane(1), 5), job(lane(1, "a"), 6), job(lane(2), 7))

    found = begun(ring)
    assert [floors(found, each)[2][1] for each in (lane(1), lane(1, "a"), lane(2))] == [5, 6, 7]


def test_a_clock_that_goes_back_takes_all_floors_with_it() -> None:
    """Ruling 10: red when floors outlive the clock that they were read from."""
    ring = Ring()
    swept(ring, job(lane(1), 5), job(lane(2), 6))

    earlier = NOON - timedelta(hours=1)
    swept(ring, job(lane(2), 7, started_at=earlier, available_at=earlier))

    found = begun(ring)
    assert floors(found, lane(1)) == [BEFORE_ALL] * 4
    assert floors(found, lane(2))[2] == (earlier, 7)
    # From then on the new time is the one that goes on.
    swept(ring, job(lane(3), started_at=earlier + timedelta(seconds=1)))
    assert floors(begun(ring), lane(2))[2] == (earlier, 7)


def test_a_clock_that_stands_still_takes_no_floor() -> None:
    ring = Ring()
    swept(ring, job(lane(1), 5))
    swept(ring, job(lane(2), 6))

    assert floors(begun(ring), lane(1))[2] == (NOON, 5)


def test_the_floor_of_a_lane_that_a_walk_found_goes_down_to_what_is_due_there() -> None:
    """It may lie behind the floor; red when that stays, or when all is read again."""
    ring = limited(Ring())
    swept(ring, job(lane(1), 5), job(lane(2), 6))

    ring.end_walk([due(lane(1), priority=2, number=3)], 100, 1.0, 0.0)

    found = begun(ring)
    assert floors(found, lane(1)) == [BEFORE_ALL, BEFORE_ALL, (NOON, 2), BEFORE_ALL]
    assert floors(found, lane(2))[2] == (NOON, 6)


# --- Priorities


def test_every_tenth_claim_takes_the_priorities_in_reverse() -> None:
    """F-071: red when it never does."""
    ring = Ring()

    orders = [tuple(ring.priorities()) for _ in range(3 * REVERSE_EVERY)]

    reversed_ = [place for place, order in enumerate(orders, 1) if order == PRIORITIES[::-1]]
    assert reversed_ == [REVERSE_EVERY, 2 * REVERSE_EVERY, 3 * REVERSE_EVERY]
    assert set(orders) == {PRIORITIES, PRIORITIES[::-1]}


def test_rounds_and_sweeps_count_as_claims_together() -> None:
    ring = Ring()
    swept(ring, job(lane(1)))

    orders: list[Sequence[int]] = []
    for _ in range(REVERSE_EVERY // 2):
        orders.append(ring.priorities())
        orders.append([priority for _, priority, _ in begun(ring).probes])

    assert [tuple(order) for order in orders].index(PRIORITIES[::-1]) == REVERSE_EVERY - 1


# --- Pace


def test_the_first_sweep_is_due_at_once() -> None:
    assert Ring().sweep_in(0.0) == 0.0


def test_a_new_walk_comes_a_second_after_the_last_while_lanes_give() -> None:
    ring = Ring()
    swept(ring, *[job(lane(1), n) for n in range(3)], now=10.0, cost=0.001, share=3)

    assert ring.sweep_in(10.0) == pytest.approx(SWEEP_EVERY)
    assert ring.sweep_in(10.0 + SWEEP_EVERY) == 0.0


def test_a_dear_walk_rests_for_a_multiple_of_its_cost() -> None:
    """Red when sweeps may take all the time of a worker beside dead entries."""
    ring = Ring()
    swept(ring, *[job(lane(1), n) for n in range(3)], now=10.0, cost=2.0, share=3)

    beyond = 2.0 - STEP_COST * JOB_COST * 3
    assert ring.sweep_in(10.0) == pytest.approx(beyond * SWEEP_SHARE)


def test_a_walk_that_cost_no_more_than_rounds_would_rests_a_second_only() -> None:
    """Red when ten thousand lanes that were drained on the way keep new ones from being met."""
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), limit=100)
    ring.end_round(begun(ring), 100, [job(lane(1), n) for n in range(100)], cost=0.1)

    for step in range(50):
        swept(ring, job(lane(step)), job(lane(step + 1)), limit=2, now=10.0, cost=0.004)
    swept(ring, *[job(lane(60), n) for n in range(2)], limit=3, now=10.0, cost=0.004, share=2)

    assert not ring.is_walking
    assert ring.sweep_in(10.0) == pytest.approx(SWEEP_EVERY)


def test_what_a_walk_cost_beyond_rounds_is_rested_for_whatever_it_found() -> None:
    """Red when a full step counts as free: beside dead entries it may have read them all."""
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), limit=100)
    ring.end_round(begun(ring), 100, [job(lane(1), n) for n in range(100)], cost=0.1)

    swept(ring, *[job(lane(1), n) for n in range(2)], limit=3, now=10.0, cost=1.0, share=2)

    beyond = 1.0 - STEP_COST * 0.001 * 2
    assert ring.sweep_in(10.0) == pytest.approx(beyond * SWEEP_SHARE)


def test_where_no_lane_gives_a_walk_rests_for_its_cost_alone() -> None:
    ring = Ring()
    swept(ring, now=10.0, cost=0.01)

    assert ring.sweep_in(10.0) == pytest.approx(0.01 * SWEEP_SHARE)


def test_a_walk_goes_on_behind_the_last_lane_of_a_full_step() -> None:
    ring = Ring()

    swept(ring, job(lane(1)), job(lane(2)), limit=2, now=10.0)
    walking = (ring.cursor, ring.is_walking, ring.sweep_in(10.0))
    swept(ring, job(lane(3)), limit=2, now=10.1)

    assert walking == (lane(2), True, 0.0)
    assert not ring.is_walking


def test_a_dear_step_lets_rounds_go_on_before_the_walk_does() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), limit=100)
    ring.end_round(begun(ring), 100, [job(lane(1), n) for n in range(100)], cost=0.1)

    swept(ring, job(lane(1)), job(lane(2)), limit=2, now=10.0, cost=1.0)

    rest = (1.0 - STEP_COST * 0.001 * 2) * SWEEP_SHARE
    assert ring.sweep_in(10.0) == pytest.approx(rest)


def test_a_tenant_that_fills_a_step_alone_waits_for_the_others() -> None:
    """Red when the walk goes through all lanes of one tenant first."""
    ring = Ring()
    lanes = sorted(lane(1, str(key)) for key in range(3))

    swept(ring, *map(job, lanes), limit=3)
    others = ring.cursor
    swept(ring, job(lane(2)), limit=3)

    assert lanes[-1] < others < lane(2)
    assert ring.cursor == lanes[-1]
    assert ring.is_walking


def test_a_walk_that_is_not_finished_proves_nothing() -> None:
    ring = Ring()
    swept(ring, job(lane(1)), job(lane(2)), limit=2, now=10.0, cost=0.5)
    assert not ring.has_swept_since(0.0)

    swept(ring, job(lane(3)), limit=2, now=11.0, cost=0.5)

    assert ring.has_swept_since(9.4)
    # Its first step began before this moment: what came since may lie before the cursor.
    assert not ring.has_swept_since(9.6)


def test_a_ring_that_is_woken_sweeps_at_once() -> None:
    ring = Ring()
    swept(ring, *[job(lane(1), n) for n in range(3)], now=10.0, cost=9.0, share=3)

    ring.rest()

    assert ring.sweep_in(10.0) == 0.0


# --- Under limits


def test_a_round_under_limits_says_of_which_kind_each_lane_is() -> None:
    ring = limited(Ring())
    ring.end_walk([due(lane(1)), due(lane(1, "a"), KIND)], 100, 1.0, 0.0)

    assert begun(ring).kinds == (None, KIND)


def test_the_kind_of_a_lane_is_learnt_from_what_it_gave() -> None:
    ring = Ring()
    swept(ring, job(lane(1), kind="a.b"), job(lane(1, "x"), kind="a.b"))

    assert begun(limited(ring)).kinds == (None, "a.b")


def test_more_lanes_are_looked_at_and_kept_under_limits() -> None:
    ring = limited(Ring())
    lanes = [lane(1, str(key)) for key in range(KEPT_LANES + 50)]
    ring.end_walk([due(each, KIND) for each in lanes], len(lanes) + 1, 1.0, 0.0)

    met = set()
    for _ in range(-(-len(lanes) // (LIMITED_LANES - DRY_TURNS))):
        found = begun(ring)
        assert len(found.lanes) == LIMITED_LANES
        met.update(found.lanes)
        ring.end_round(found, 100, [])

    assert len(met) == len(lanes)
    assert len(ring._lanes) == KEPT_LANES


def test_under_limits_lanes_that_a_walk_has_just_found_are_asked_at_once() -> None:
    """Red when they stand behind a thousand dry ones: each claim found nothing, and walked on."""
    ring = limited(Ring())
    dry = [lane(1, str(key)) for key in range(3 * LIMITED_LANES)]
    ring.end_walk([due(each, KIND) for each in dry], len(dry) + 1, 1.0, 0.0)
    for _ in range(3):
        ring.end_round(begun(ring), 100, [])

    new = [lane(2, str(key)) for key in range(20)]
    ring.end_walk([due(each, KIND) for each in new], 100, 2.0, 0.0)

    assert set(new) <= set(begun(ring).lanes)


def test_under_limits_dry_lanes_keep_some_turns_beside_any_number_that_give() -> None:
    """They may have waited for a permit only; red when those that give take all turns."""
    ring = limited(Ring())
    dry = [lane(1, str(key)) for key in range(DRY_TURNS + 10)]
    ring.end_walk([due(each, KIND) for each in dry], 100, 1.0, 0.0)
    ring.end_round(begun(ring), 100, [])
    giving = [lane(2, str(key)) for key in range(2 * LIMITED_LANES)]
    ring.end_walk([due(each, KIND) for each in giving], 1000, 2.0, 0.0)

    first = begun(ring)
    ring.end_round(first, 100, [])
    second = begun(ring)

    assert set(dry[:DRY_TURNS]) <= set(first.lanes)
    assert set(dry[DRY_TURNS:]) <= set(second.lanes)
    assert len(first.lanes) == LIMITED_LANES


def test_under_limits_the_lanes_that_waited_for_a_permit_come_before_those_that_gave() -> None:
    """Red when the one that gave is first again: the others would wait for ever."""
    ring = limited(Ring())
    ring.end_walk([due(lane(number)) for number in (1, 2, 3)], 100, 1.0, 0.0)

    turns = []
    for _ in range(6):
        found = begun(ring)
        turns.append(found.lanes[0])
        ring.end_round(found, 100, [job(found.lanes[0])])

    assert turns == [lane(number) for number in (1, 2, 3)] * 2


def test_a_walk_that_found_new_lanes_is_worth_its_time_and_one_that_found_none_is_not() -> None:
    """Red when each claim under limits walks over the same lanes before it takes anything."""
    ring, lanes = limited(Ring()), [due(lane(n)) for n in range(1, 9)]
    ring.end_walk(lanes, 100, 1.0, 0.01)
    ring.end_round(begun(ring), 100, [])
    new = ring.sweep_in(1.0)

    ring.end_walk(lanes, 100, 1.0, 0.01)
    ring.end_round(begun(ring), 100, [])

    assert new == 0.0
    assert ring.sweep_in(1.0) == pytest.approx(0.01 * SWEEP_SHARE)


def test_under_limits_a_claim_that_left_slots_empty_walks_again_soon() -> None:
    """Others may have what may start; red when the worker waits a second for it."""
    ring = limited(Ring())
    for _ in range(2):
        ring.end_walk([due(lane(1)), due(lane(2))], 100, 1.0, 0.001)
    ring.end_round(begun(ring, 10), 10, [job(lane(1), n) for n in range(10)])
    full = ring.sweep_in(1.0)

    # One of two lanes gave all that it was asked for.
    ring.end_round(begun(ring, 20), 20, [job(lane(1), n) for n in range(10)])

    assert full == pytest.approx(SWEEP_EVERY)
    assert ring.sweep_in(1.0) == pytest.approx(0.001 * SWEEP_SHARE)


def test_a_ring_that_learns_of_limits_walks_from_the_beginning() -> None:
    """Red when the lanes that a refused sweep passed by are met by the walk after the next."""
    ring = Ring()
    ring.end_skip(lane(7))

    ring.end_look(1.0, is_limited=True)
    first = ring.cursor
    ring.end_walk([due(lane(1)), due(lane(2))], 2, 1.0, 0.0)
    ring.end_look(2.0, is_limited=True)

    assert first == (NO_LANE, NO_LANE)
    assert ring.cursor == lane(2)


def test_what_a_claim_from_the_oldest_rows_cost_counts_as_the_walks() -> None:
    ring = limited(Ring())
    ring.end_walk([], 100, 1.0, 0.5)

    ring.add_cost(2.0, 0.5)

    assert ring.sweep_in(2.0) == pytest.approx(1.0 * SWEEP_SHARE)


def test_a_claim_from_the_oldest_rows_does_not_say_what_a_round_costs() -> None:
    """Red when it does: what it has read of dead entries would count as usual from then on."""
    ring = limited(Ring())
    ring.end_walk([due(lane(1))], 100, 1.0, 0.0)

    ring.end_round(begun(ring, 10), 10, [job(lane(1))], None)
    ring.add_cost(1.0, 1.0, 1)

    assert ring.sweep_in(1.0) == pytest.approx((1.0 - STEP_COST * JOB_COST) * SWEEP_SHARE)


def test_a_step_that_found_as_many_lanes_as_it_may_goes_on_behind_the_last() -> None:
    ring = limited(Ring())

    ring.end_walk([due(lane(1)), due(lane(2))], 2, 1.0, 0.0)
    behind = ring.cursor
    ring.end_walk([due(lane(3))], 2, 1.0, 0.0)

    assert behind == lane(2)
    assert not ring.is_walking


def test_jobs_are_given_their_lanes_once_a_second_or_more_rarely_where_it_is_dear() -> None:
    ring = Ring()
    first = ring.is_move_due(0.0)
    ring.end_move(10.0, 0.001, 0)
    cheap = (ring.is_move_due(10.9), ring.is_move_due(10.0 + SWEEP_EVERY))
    ring.end_move(20.0, 1.0, 0)

    assert first
    assert cheap == (False, True)
    assert not ring.is_move_due(20.0 + SWEEP_SHARE - 0.1)
    assert ring.is_move_due(20.0 + SWEEP_SHARE)


def test_while_jobs_come_without_a_lane_they_are_moved_at_once() -> None:
    """Red when each of them waits for the second to be over."""
    ring = Ring()
    ring.end_move(10.0, 1.0, 5)
    while_some_come = ring.is_move_due(10.0)
    ring.end_move(10.1, 0.01, 0)

    assert while_some_come
    assert not ring.is_move_due(10.2)


def test_a_worker_asks_for_limits_soon_after_work_that_flowed() -> None:
    """A claim that finds nothing may have met a limit; red when it waits for the rare look."""
    ring = Ring()
    first = ring.is_look_due(0.0)
    ring.end_look(10.0, is_limited=False)
    quiet = (ring.is_look_due(10.0 + LOOK_SOON), ring.is_look_due(10.0 + LOOK_EVERY))
    swept(ring, job(lane(1)))
    flowed = (ring.is_look_due(10.0 + LOOK_SOON - 0.1), ring.is_look_due(10.0 + LOOK_SOON))
    ring.end_look(20.0, is_limited=True)

    assert first
    assert quiet == (False, True)
    assert flowed == (False, True)
    assert ring.is_limited
    assert not ring.is_look_due(20.0 + LOOK_SOON)


# --- What a walk need not look for


def test_a_walk_is_told_in_order_of_the_lanes_that_gave_and_lie_before_it() -> None:
    ring = Ring()
    swept(ring, job(lane(3)), job(lane(1)), job(lane(2)), job(lane(2, "a")))
    known = ring.known_lanes()
    ring.end_skip(lane(1))

    assert known == sorted([lane(1), lane(2), lane(2, "a"), lane(3)])
    assert ring.known_lanes() == known[1:]


def test_a_walk_is_not_told_of_lanes_that_gave_nothing_yet() -> None:
    """They hold no entries of what has ended, and a thousand of them would make each step dear."""
    ring = limited(Ring())
    ring.end_walk([due(lane(1), KIND)], 100, 1.0, 0.0)
    ring.end_round(begun(ring), 100, [])
    ring._floors.clear()

    assert ring.known_lanes() == []


def test_a_walk_is_told_of_so_many_lanes_that_gave_last() -> None:
    ring = limited(Ring())
    many = [lane(number) for number in range(1, KNOWN_LANES + 11)]
    swept(ring, *map(job, many))

    assert ring.known_lanes() == many[10:]


# --- News


def test_news_sends_the_next_claim_to_the_remembered_lanes_once() -> None:
    ring = Ring()
    swept(ring, job(lane(1)))
    ring.expect_news()

    assert [ring.take_news(), ring.take_news()] == [True, False]


def test_news_is_worth_nothing_to_a_ring_that_remembers_no_lane() -> None:
    ring = Ring()
    ring.expect_news()

    assert not ring.take_news()
