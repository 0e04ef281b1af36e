"""What a worker remembers of a queue: lanes and their turns, floors, and when to look beyond."""

from collections.abc import Sequence
from datetime import timedelta

from rings import BEFORE_ALL, NOON, begun, due, floors, job, lane, limited, swept

from factories import KIND
from relevo.model.ring import DRY_LANES, KNOWN_LANES, LANES_A_ROUND, PRIORITIES, REVERSE_EVERY, Ring

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
