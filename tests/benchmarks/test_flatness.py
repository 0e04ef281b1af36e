"""The flatness benchmark runs through all that a table may hold; its ratios need its full size."""

import subprocess
import sys
from pathlib import Path

import pytest

FLATNESS = Path(__file__).parents[2] / "benchmarks" / "flatness.py"
SMALL = {"finished": 2000, "future": 2000, "unserved": 500, "parked": 2000, "keys": 20}


@pytest.mark.timeout(300)
def test_every_scenario_is_filled_and_measured_beside_an_empty_table() -> None:
    command = [sys.executable, str(FLATNESS), "--jobs", "500", "--rounds", "1"]
    for option, count in SMALL.items():
        command += [f"--{option}", str(count)]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    verdicts = [line.split() for line in ended.stdout.splitlines() if " buffers a job " in line]
    assert ended.returncode in (0, 1), ended.stderr
    assert ended.stderr == ""
    named = [" ".join(words[1 : words.index("buffers")]) for words in verdicts]
    assert named == [
        "nothing",
        "future",
        "unserved",
        "pinned",
        "in order",
        "parked",
        "finished",
        "together",
    ]
    # Every verdict is said twice: in the line, and by the exit code.
    assert ended.returncode == any(words[0] == "FAIL" for words in verdicts)
