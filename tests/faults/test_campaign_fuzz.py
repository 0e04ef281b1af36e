"""R14 small: payloads at random; RELEVO_TEST_SCALE=25 is its full size."""

from pathlib import Path

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.fuzz import measure_payloads
from workers import scaled


def test_payloads_arrive_as_they_were_and_no_worker_dies_of_one(tmp_path: Path) -> None:
    examples = scaled(400, 10_000)

    measured = measure_and_check(lambda *run: measure_payloads(examples, *run), tmp_path)

    assert (measured.counts["unequal"], measured.counts["dead_workers"]) == (0, 0)
    assert measured.counts["accepted"] > examples / 2
