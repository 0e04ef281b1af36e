"""R8 small: recovery is seen to come; how fast it is, is told by the command."""

from pathlib import Path

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.recovery import measure_recovery

SLACK = 10.0
"""Others use the machine too; what takes ten times as long as promised does not come by itself."""


def test_lost_jobs_start_again_and_a_server_that_is_back_is_used(tmp_path: Path) -> None:
    measured = measure_and_check(lambda *run: measure_recovery(2, 1, *run, slack=SLACK), tmp_path)

    assert measured.counts["to_next_start_measured"] == 8
    assert measured.counts["to_first_completion_measured"] == 1
