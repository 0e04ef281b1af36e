"""R7 small: workers are frozen beyond their lease; RELEVO_TEST_SCALE=3 is its full size."""

from pathlib import Path

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.stop import measure_freezes
from workers import scaled


def test_what_a_frozen_worker_brings_too_late_is_not_accepted(tmp_path: Path) -> None:
    freezes = scaled(8, 20)

    measured = measure_and_check(lambda *run: measure_freezes(freezes, *run), tmp_path)

    assert measured.counts["freezes"] == freezes
    assert measured.counts["starts_lost"] > 0
    assert measured.counts["late_completions_accepted"] == 0
