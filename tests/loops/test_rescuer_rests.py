"""A lost job starts soon after the lease of its worker, however long the lease is."""

import pytest

from relevo.loops.rescuer import rest

LEASE = 30.0
CHANCES = [0.0, 0.5, 1.0]


@pytest.mark.parametrize("chance", CHANCES)
def test_a_lease_that_ends_soon_is_met_within_half_a_second(chance: float) -> None:
    assert 3.0 <= rest(LEASE, 3.0, chance) <= 3.5


@pytest.mark.parametrize("chance", CHANCES)
def test_leases_that_live_workers_renew_bring_no_look_before_its_time(chance: float) -> None:
    # They are renewed every third of a lease, so at least two thirds are always left.
    assert rest(LEASE, LEASE * 2 / 3, chance) == rest(LEASE, float("inf"), chance)


@pytest.mark.parametrize("chance", CHANCES)
def test_a_short_lease_among_long_ones_makes_nobody_spin(chance: float) -> None:
    assert rest(LEASE, 0.001, chance) >= 0.5


@pytest.mark.parametrize("chance", CHANCES)
def test_a_lease_that_ended_during_the_look_is_met_by_the_next(chance: float) -> None:
    assert rest(LEASE, -0.01, chance) <= 1.0


@pytest.mark.parametrize("lease", [0.1, 3.0, 30.0, 300.0])
@pytest.mark.parametrize("chance", CHANCES)
def test_it_is_late_by_a_part_of_the_lease_and_never_by_more_than_it_promises(
    lease: float, chance: float
) -> None:
    for tenths in range(1, 10):
        soon = lease * tenths / 10
        assert rest(lease, soon, chance) <= soon + min(1.0, lease / 30)
