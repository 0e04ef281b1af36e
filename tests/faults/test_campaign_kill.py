"""R1 small: workers die at random moments under load; RELEVO_TEST_SCALE=7 is its full size."""

from pathlib import Path

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.kill import measure_kills
from workers import scaled


def test_workers_that_are_killed_lose_nothing_and_do_nothing_twice(tmp_path: Path) -> None:
    kills, jobs = scaled(15, 50), scaled(1500, 10_000)

    measured = measure_and_check(lambda *run: measure_kills(kills, jobs, *run), tmp_path)

    assert (measured.counts["kills"], measured.counts["jobs"]) == (kills, jobs)
    assert measured.counts["starts_lost"] > 0
