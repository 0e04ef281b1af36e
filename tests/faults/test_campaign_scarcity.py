"""R16 small: each thing is missing once; the command does the same in one run."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from faults.campaigns.everyday import measure_and_check
from faults.campaigns.scarcity import PARTS, Missing, NotAllowed, charged_losses
from faults.campaigns.verdict import Verdict
from faults.measured import Measured
from faults.tale import Tale, running


@pytest.mark.parametrize("part", PARTS)
def test_what_is_missing_is_charged_to_no_job_and_its_return_is_used(
    part: str, tmp_path: Path
) -> None:
    def measure(seed: int, directory: Path) -> Measured:
        verdict = Verdict()
        try:
            PARTS[part](directory, seed, verdict)
        except Missing as error:
            _pass_over(error)
        return verdict.measured()

    measured = measure_and_check(measure, tmp_path)

    assert measured.counts["charged"] == 0
    assert measured.counts["jobs"] > 0
    assert part != "connections" or measured.counts["connections_refused"] > 0


def _pass_over(error: Missing) -> NoReturn:
    """Skip a part that cannot run here; CI has all that it needs, so there it fails."""
    if os.environ.get("CI") == "true" and not isinstance(error, NotAllowed):
        pytest.fail(str(error))
    pytest.skip(str(error))


def test_in_ci_nothing_that_is_missing_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no faketime"):
        _pass_over(Missing("no faketime"))
    with pytest.raises(pytest.skip.Exception, match="not by a user"):
        _pass_over(NotAllowed("not by a user"))

    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no faketime"):
        _pass_over(Missing("no faketime"))


def test_a_loss_is_a_charge_whatever_its_kind_and_however_it_ends() -> None:
    tale = Tale()
    tale.session(2)
    for job, kind in ((1, "mixed.inside"), (2, "mixed.timed"), (3, "mixed.inside")):
        running(tale, job, kind=kind)
    tale.end(1)
    tale.go_back(1, "lost")
    # Its last start: it ends for good.
    losses = tale.last(2).losses + 1
    tale.finish(2, "failed", losses=losses, program="relevo rescue w2")
    # Given back without a charge.
    tale.go_back(3, "released")

    found = charged_losses(tale.history())

    assert [event.job_id for event in found] == [1, 2]
