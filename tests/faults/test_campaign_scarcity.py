"""R16 small: each thing is missing once; the command does the same in one run."""

from pathlib import Path

import pytest

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.scarcity import PARTS, Missing
from faults.campaigns.verdict import Verdict
from faults.measured import Measured


@pytest.mark.parametrize("part", PARTS)
def test_what_is_missing_is_charged_to_no_job_and_its_return_is_used(
    part: str, tmp_path: Path
) -> None:
    def measure(seed: int, directory: Path) -> Measured:
        verdict = Verdict()
        try:
            PARTS[part](directory, seed, verdict)
        except Missing as error:
            pytest.skip(str(error))
        return verdict.measured()

    measured = measure_and_check(measure, tmp_path)

    assert measured.counts["charged"] == 0
    assert measured.counts["jobs"] > 0
    assert part != "connections" or measured.counts["connections_refused"] > 0
