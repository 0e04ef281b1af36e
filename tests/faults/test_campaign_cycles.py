"""R10 small: actors on one cycle interleave and crash; RELEVO_TEST_SCALE=17 is its full size."""

from pathlib import Path

from faults.campaigns.cycles import measure_interleavings
from faults.campaigns.everyday import measure_and_check
from workers import scaled


def test_whatever_happens_to_a_cycle_leaves_it_whole(tmp_path: Path) -> None:
    interleavings = scaled(30, 500)

    measured = measure_and_check(lambda *run: measure_interleavings(interleavings, *run), tmp_path)

    assert measured.counts["half_activated_or_mixed"] == 0
    assert measured.counts["crashed"] > 0
    assert measured.counts["refused"] > 0
