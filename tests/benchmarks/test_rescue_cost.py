"""What ticks and rescues cost, counted by the server beside some tens of thousands of live rows."""

import subprocess
import sys
from pathlib import Path

import pytest

RESCUE = Path(__file__).parents[2] / "benchmarks" / "rescue.py"


@pytest.mark.timeout(300)
def test_a_rescue_is_one_pass_over_the_live_rows_and_a_tick_is_none() -> None:
    """Red when a tick reads jobs, when a rescue reads them twice, or when a claim waits for it."""
    command = [sys.executable, str(RESCUE), "--rows", "30000", "--held", "50"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    verdicts = [line for line in ended.stdout.splitlines() if line.startswith(("ok", "FAIL"))]
    assert [line for line in verdicts if line.startswith("FAIL")] == []
    assert (ended.returncode, len(verdicts)) == (0, 3 + 3 * 3 + 3), ended.stderr
