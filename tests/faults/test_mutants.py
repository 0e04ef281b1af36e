"""The checker is checked: mutants of the engine are named, and none of them has rotted."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from faults.checker import INVARIANTS
from faults.mutants.catalogue import MUTANTS
from faults.mutants.mutant import SOURCE, Edit, Mutant, a_copy
from faults.mutants.players import Found
from faults.mutants.run import choose, is_clean, is_named, measure_some
from faults.mutants.scenarios import SCENARIOS
from faults.sizes import Size, numbers

NAMES = [mutant.name for mutant in MUTANTS]
SEED = 15

HARMLESS = Mutant(
    "a comment, which is no fault",
    "I1",
    "plain",
    (Edit("relevo/loops/context.py", '"""What a handler is given', '"""All a handler is given'),),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_each_edit_of_a_mutant_finds_its_place_exactly_once(mutant: Mutant) -> None:
    assert [edit.count() for edit in mutant.edits] == [1] * len(mutant.edits)
    assert all(edit.new != edit.old for edit in mutant.edits)


def test_each_mutant_has_a_name_a_scenario_and_an_invariant_that_exist() -> None:
    assert Counter(NAMES).most_common(1)[0][1] == 1
    assert {mutant.scenario for mutant in MUTANTS} == SCENARIOS.keys()
    # Each invariant has to name one at least, and something that is not promised is not named.
    assert {mutant.expected for mutant in MUTANTS} == {*INVARIANTS, ""}


def test_a_mutant_changes_a_copy_and_nothing_else() -> None:
    edit = HARMLESS.edits[0]

    with a_copy(HARMLESS) as source:
        assert edit.count(source) == 0
        assert edit.new in (source / edit.file).read_text("utf-8")
        with pytest.raises(ValueError, match="0 times"):
            edit.apply(source)

    assert edit.count() == 1
    assert not source.exists()


def test_a_mutant_is_named_only_by_its_own_invariant_and_by_its_own_source() -> None:
    mutant, hint = HARMLESS, replace(HARMLESS, expected="")
    nothing = Found("plain", found=(), violations=(), error="", source="/elsewhere")
    named = replace(nothing, found=("I1", "I3"))

    assert is_named(mutant, named)
    assert not is_named(mutant, replace(named, found=("I3",)))
    assert not is_named(mutant, replace(nothing, error="it broke down"))
    assert not is_named(mutant, replace(named, source=str(SOURCE)))
    assert is_named(hint, nothing)
    assert not is_named(hint, named)
    assert not is_named(hint, replace(nothing, error="it broke down"))
    assert is_clean(replace(nothing, source=str(SOURCE)))
    assert not is_clean(nothing)


def test_a_seed_chooses_the_same_mutants_again_and_different_invariants_first() -> None:
    most = numbers("R15", Size.PULL_REQUEST)["mutants"]

    chosen = choose(most, SEED)

    assert chosen == choose(most, SEED)
    assert len({mutant.expected for mutant in chosen}) == most
    assert sorted(mutant.name for mutant in choose(1000, SEED)) == sorted(NAMES)


@pytest.mark.timeout(300)
def test_the_checker_names_mutants_and_passes_over_what_is_no_fault(tmp_path: Path) -> None:
    mutants = choose(numbers("R15", Size.PULL_REQUEST)["mutants"], SEED)

    measured = measure_some([*mutants, HARMLESS], tmp_path)

    assert [problem.partition(":")[0] for problem in measured.problems] == [HARMLESS.name]
    assert measured.counts["named"] == len(mutants)
