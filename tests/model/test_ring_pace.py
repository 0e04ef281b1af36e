"""When a worker looks beyond what it remembers, and where a walk goes on."""

import pytest
from rings import begun, job, lane, swept

from relevo.model.pace import JOB_COST, STEP_COST, SWEEP_EVERY, SWEEP_SHARE
from relevo.model.ring import Ring


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
