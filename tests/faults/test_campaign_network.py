"""R6 small: the network fails in every way; RELEVO_TEST_SCALE=6 is its full size."""

from pathlib import Path

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.network import measure_seconds
from faults.proxy import Kind
from workers import scaled


def test_whatever_the_network_does_nothing_is_lost_and_nobody_gives_up(tmp_path: Path) -> None:
    seconds = scaled(20, 120)

    measured = measure_and_check(
        lambda *run: measure_seconds(seconds, *run, longest=max(3.0, seconds / 8)), tmp_path
    )

    assert {f"faults_{kind}" for kind in Kind} <= measured.counts.keys()
    assert measured.counts["unknown_outcomes"] > 0
