"""The checker is checked: mutants of the engine are named, and none of them has rotted."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from faults.checker import INVARIANTS
from faults.mutants.catalogue import GROUPS, MUTANTS
from faults.mutants.mutant import SOURCE, Edit, Mutant, a_copy
from faults.mutants.players import Found, Players, a_server
from faults.mutants.run import choose, is_clean, is_named, try_all
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

# Each runs into a name that nobody defined: the first in the caller, the second in a handler,
# whose errors end its start and are no error of the scenario.
BROKEN = (
    Mutant(
        "a claim that cannot be made",
        "I2",
        "plain",
        (Edit("relevo/engine/jobs/claim.py", "if not ring.sweep_in", "if not rung.sweep_in"),),
    ),
    Mutant(
        "a handler's transaction that cannot be opened",
        "I2",
        "lost_handler",
        (Edit("relevo/loops/context.py", "with hold.pools.sync_tr", "with held.pools.sync_tr"),),
    ),
)


@pytest.fixture(scope="module")
def players(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Players]:
    """Who plays with mutants, on a server that other tests do not change."""
    with a_server() as server:
        yield Players(server, tmp_path_factory.mktemp("mutants"))


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
    assert not is_named(mutant, replace(named, error="it broke down"))
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


@pytest.mark.parametrize("group", GROUPS)
def test_the_checker_names_every_mutant_of_a_group(group: str, players: Players) -> None:
    """Red when a mutant is found by no invariant, by another one only, or cannot run."""
    mutants = GROUPS[group]

    measured = try_all(players, mutants)

    assert list(measured.problems) == []
    assert measured.counts["named"] == len(mutants)


def test_what_is_no_fault_or_cannot_run_is_not_named(players: Players) -> None:
    """Red when an engine that breaks down counts as one that was found out."""
    measured = try_all(players, (HARMLESS, *BROKEN))

    assert [problem.partition(":")[0] for problem in measured.problems] == [
        HARMLESS.name,
        *(mutant.name for mutant in BROKEN),
    ]
    assert ["NameError" in problem for problem in measured.problems] == [False, True, True]
    assert measured.counts["named"] == 0
