"""R10 small: actors on one cycle interleave and crash; RELEVO_TEST_SCALE=17 is its full size."""

from pathlib import Path

import pytest

from faults.campaigns import cycles
from faults.campaigns.cycles import count_turns, measure_interleavings
from faults.campaigns.everyday import measure_and_check
from faults.test_checker_cycles import CycleTale
from workers import scaled


def test_whatever_happens_to_a_cycle_leaves_it_whole(tmp_path: Path) -> None:
    interleavings = scaled(30, 500)

    measured = measure_and_check(lambda *run: measure_interleavings(interleavings, *run), tmp_path)

    assert measured.counts["half_activated_or_mixed"] == 0
    assert measured.counts["activations"] > interleavings / 10
    assert measured.counts["recalls"] > 0
    assert measured.counts["crashed"] > 0
    assert measured.counts["refused"] > 0


def test_what_is_tried_and_taken_back_in_one_transaction_is_no_activation() -> None:
    tale = CycleTale()
    tale.activate()
    tale.recall()
    tale.move("cycle", "draft", "active", 1)
    tried = CycleTale()
    tried.move("cycle", "draft", "active", 1)
    tried.move("cycle", "active", "draft", 1, xact=tried.cycles[-1].xact)

    assert count_turns(tale.history()) == {"activations": 2, "recalls": 1}
    assert count_turns(tried.history()) == {}


def test_interleavings_without_an_activation_prove_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cycles, "SHARES", {cycles.recall: 1})

    measured = measure_interleavings(2, 1, tmp_path)

    assert measured.counts["activations"] == 0
    assert measured.problems == ["no activation was committed: nothing was tried"]
