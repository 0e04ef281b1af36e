"""R17 small: migrators die inside their statements; RELEVO_TEST_SCALE=9 is all of them.

The upgrade under load is tests/field/test_f076_migrate_under_load.py.
"""

from pathlib import Path

import pytest

from faults.campaigns.before import NoHistory, sources_before
from faults.campaigns.everyday import measure_and_check
from faults.campaigns.ground import a_server
from faults.campaigns.upgrade import interrupt
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from workers import scaled


def test_a_migrator_that_dies_inside_a_statement_leaves_what_the_next_completes(
    tmp_path: Path,
) -> None:
    try:
        old = sources_before(tmp_path / "before")
    except NoHistory as error:
        pytest.skip(str(error))
    points = scaled(4, 35)

    def measure(seed: int, _directory: Path) -> Measured:
        verdict = Verdict()
        with a_server(is_durable=False) as server:
            interrupt(server, old, points, seed, verdict)
        return verdict.measured()

    measured = measure_and_check(measure, tmp_path)

    assert measured.counts["migrations_killed"] == points
    assert measured.counts["migrations_terminated"] == points
