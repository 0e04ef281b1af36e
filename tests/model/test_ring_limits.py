"""What a worker remembers of a queue whose jobs fall under limits."""

import pytest
from rings import begun, due, job, lane, limited, swept

from factories import KIND
from relevo.model.ids import NO_LANE
from relevo.model.pace import JOB_COST, LOOK_EVERY, LOOK_SOON, STEP_COST, SWEEP_EVERY, SWEEP_SHARE
from relevo.model.ring import DRY_TURNS, KEPT_LANES, LIMITED_LANES, Ring


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
