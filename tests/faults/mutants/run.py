"""R15: every mutant is found by the invariant that has to name it; the engine itself by none.

Each mutant is a process of its own over a copy of the source, in a database of its own. The
scenarios are played first with the engine as it is, and have to be clean.
"""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from random import Random

from faults.measured import Measured
from faults.mutants.catalogue import MUTANTS
from faults.mutants.mutant import SOURCE, Mutant, a_copy
from faults.mutants.players import Found, Players, a_server
from faults.sizes import Size, numbers

AT_ONCE = 2


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Try as many mutants as the size has; which of them, the seed decides."""
    mutants = choose(numbers("R15", size)["mutants"], seed)
    with a_server() as server:
        return try_all(Players(server, directory), mutants)


def choose(most: int, seed: int) -> list[Mutant]:
    """Answer so many mutants, as the seed decides: first one for each invariant, then more."""
    order = list(MUTANTS)
    Random(seed).shuffle(order)  # noqa: S311 -- no secret, it has to be repeatable
    ranks: dict[str, Iterator[int]] = {}
    ranked = [(next(ranks.setdefault(one.expected, count())), one) for one in order]
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])][:most]


def try_all(players: Players, mutants: Sequence[Mutant]) -> Measured:
    """Play the scenarios of these mutants with the engine as it is, then with each mutant."""
    names = sorted({mutant.scenario for mutant in mutants})
    halves = [names[number::AT_ONCE] for number in range(min(AT_ONCE, len(names)))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        played = [
            one for half in pool.map(lambda h: players.play(SOURCE, h), halves) for one in half
        ]
        problems = [
            tell(f"unchanged, {found.scenario}", "none", found)
            for found in played
            if not is_clean(found)
        ]
        shown = pool.map(lambda mutant: (mutant, _try(players, mutant)), mutants)
        problems += [problem for mutant, found in shown if (problem := _judge(mutant, found))]
    missed = sum(not problem.startswith("unchanged") for problem in problems)
    return Measured(
        {"mutants": len(mutants), "named": len(mutants) - missed, "scenarios": len(names)},
        problems=problems,
    )


def is_clean(found: Found) -> bool:
    """Whether the engine as it is played a scenario to its end and nothing was named."""
    return not found.found and not found.error and Path(found.source) == SOURCE


def is_named(mutant: Mutant, found: Found) -> bool:
    """Whether a mutant was named by its invariant; where nothing is promised, by none.

    A scenario that broke down has shown nothing, whatever was found on the way: an edit that
    cannot run is no fault that somebody could ship.
    """
    if Path(found.source) == SOURCE or found.error:
        # It was never imported, or never played to its end.
        return False
    return mutant.expected in found.found if mutant.expected else not found.found


def tell(name: str, expected: str, found: Found) -> str:
    """Answer what was expected and what was found, with the slices, to be read by a person."""
    lines = [f"{name}: expected {expected}, found {_words(found)}", *found.violations, found.error]
    return "\n".join(filter(None, lines))


def _try(players: Players, mutant: Mutant) -> Found:
    with a_copy(mutant) as source:
        (found,) = players.play(source, [mutant.scenario], is_empty=mutant.changes_schema)
    return found


def _judge(mutant: Mutant, found: Found) -> str:
    """Print how a mutant fared; answer what is wrong, or nothing."""
    expected, named = mutant.expected or "none", is_named(mutant, found)
    verdict = "" if named else "  <- broke down" if found.error else "  <- not named"
    sys.stderr.write(f"{mutant.name:64} {expected:>4}  {_words(found)}{verdict}\n")
    return "" if named else tell(mutant.name, expected, found)


def _words(found: Found) -> str:
    return " ".join(found.found) or "none"
