"""Every figure has its sizes, and whoever reads one can measure it again."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from faults import __main__ as command
from faults.checker import Violation
from faults.measured import Measured
from faults.sizes import FIGURES, Size, numbers

TESTS = Path(__file__).parent.parent


def test_each_figure_grows_from_size_to_size() -> None:
    for name in FIGURES:
        sizes = [numbers(name, size) for size in Size]
        given = [size for size in sizes if size]
        assert given, name
        for smaller, larger in pairwise(given):
            assert smaller.keys() == larger.keys(), name
            assert all(smaller[key] <= larger[key] for key in smaller), name


def test_the_command_lists_the_figures_that_exist() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "faults"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=True,
    )

    listed = [line.split()[0] for line in shown.stdout.splitlines()[1:]]
    assert listed == [name for name in FIGURES if command.find(name)]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Measured]:
    """What the next measurement of any figure answers."""
    answers: list[Measured] = []

    def measure(size: Size, seed: int, directory: Path) -> Measured:
        (directory / "witness").write_text(f"{size} {seed}")
        return answers.pop()

    monkeypatch.setattr(command, "find", lambda _name: measure)
    return answers


def test_a_figure_is_printed_with_all_that_repeats_it(
    measured: list[Measured], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured.append(Measured({"kills": 50, "lost": 0}))

    code = command.main(["pull-request", "R1", "--seed", "7", "--keep", str(tmp_path)])

    printed = json.loads(capsys.readouterr().out)
    assert code == 0
    assert printed["command"] == "PYTHONPATH=tests python -m faults pull-request R1 --seed 7"
    assert (printed["kills"], printed["seed"], printed["violations"]) == (50, 7, 0)
    assert {"commit", "machine", "seconds", "size"} <= printed.keys()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "broken",
    [
        Measured({"kills": 1}, violations=[Violation("I1", "job 7 is lost", ["the slice"])]),
        Measured({"kills": 1}, problems=["job 7 is lost, the slice"]),
    ],
)
def test_a_broken_promise_is_told_and_its_evidence_kept(
    measured: list[Measured],
    broken: Measured,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured.append(broken)

    code = command.main(["pull-request", "R1", "--seed", "7", "--keep", str(tmp_path)])

    told = capsys.readouterr().err
    (kept,) = tmp_path.iterdir()
    assert code == 1
    assert "job 7 is lost" in told
    assert "the slice" in told
    assert str(kept) in told
    assert (kept / "witness").read_text() == "pull-request 7"


def test_what_is_not_measured_is_not_passed_over() -> None:
    assert command.main(["pull-request", "R11"]) == 2
    assert command.main(["pull-request", "R8"]) == 2
