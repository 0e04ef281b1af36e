"""F-076: upgrading blocks all workers while an index is built.

Mechanism: CREATE INDEX inside the migration's transaction, and ALTER TABLE statements that
wait behind a long transaction while every claim waits behind them. Here eight workers of the
version before go on while the table is migrated to this one and a line more, which adds a
column and an index; most of the time some transaction has written to the table.
RELEVO_TEST_SCALE=500 is the size of the case, 5,000,000 rows.
"""

from pathlib import Path

import pytest

from faults.campaigns.before import NoHistory, sources_before
from faults.campaigns.everyday import measure_and_check
from faults.campaigns.ground import a_server
from faults.campaigns.upgrade import LONGEST_STALL, upgrade
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from workers import scaled


def test_f076_no_claim_waits_for_a_second_while_the_table_is_migrated(tmp_path: Path) -> None:
    try:
        old = sources_before(tmp_path / "before")
    except NoHistory as error:
        pytest.skip(str(error))
    rows = scaled(10_000, 5_000_000)

    def measure(_seed: int, directory: Path) -> Measured:
        verdict = Verdict()
        with a_server(is_durable=False) as server:
            upgrade(server, old, rows, directory, verdict)
        return verdict.measured()

    measured = measure_and_check(measure, tmp_path)

    assert measured.counts["longest_claim_stall_ms"] <= LONGEST_STALL * 1000
    assert measured.counts["jobs_failed"] == 0
