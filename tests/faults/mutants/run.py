"""R15: every mutant is found by the invariant that has to name it; the engine itself by none.

Each mutant is a process of its own over a copy of the source, in a database of its own. The
scenarios are played first with the engine as it is, and have to be clean.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from faults.measured import Measured
from faults.mutants.act import prepare
from faults.mutants.catalogue import MUTANTS
from faults.mutants.mutant import SOURCE, Mutant, a_copy
from faults.sizes import Size, numbers
from relevo.db.embedded import Embedded

TESTS = Path(__file__).parents[2]
TEMPLATE = "mutants_template"
BOUND = 120.0
AT_ONCE = 2

SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What one scenario showed.

    Attributes:
        scenario: Which one.
        found: The invariants that were broken.
        violations: The stories, to be read by a person.
        error: What was raised, if the scenario broke down.
        source: Where the engine was imported from.
    """

    scenario: str
    found: tuple[str, ...]
    violations: tuple[str, ...]
    error: str
    source: str


class Players:
    """Processes that play scenarios, and the databases that they do it in."""

    def __init__(self, server: str, directory: Path) -> None:
        self._server, self._directory = server, directory
        self._numbers = count(1)
        self._create(TEMPLATE)
        prepare(self._dsn(TEMPLATE))

    def play(self, source: Path, names: Sequence[str], *, is_empty: bool = False) -> list[Found]:
        """Play scenarios one after the other with one source.

        Args:
            source: What is imported.
            names: The scenarios.
            is_empty: Whether the source has to migrate the databases itself.
        """
        databases = [f"mutants_{next(self._numbers)}" for _ in names]
        for database in databases:
            self._create(database, None if is_empty else TEMPLATE)
        words = [f"{name}={self._dsn(one)}" for name, one in zip(names, databases, strict=True)]
        process = subprocess.run(
            [sys.executable, "-m", "faults.mutants.act", str(self._directory), *words],
            env={**os.environ, "PYTHONPATH": f"{source}:{TESTS}"},
            capture_output=True,
            text=True,
            timeout=BOUND * len(names),
            check=False,
        )
        for database in databases:
            self._admin("DROP DATABASE {} WITH (FORCE)", database)
        if process.returncode:
            raise RuntimeError(process.stderr)
        return [_read(line) for line in process.stdout.splitlines()]

    def _create(self, database: str, template: str | None = None) -> None:
        if template is None:
            self._admin("CREATE DATABASE {}", database)
        else:
            self._admin("CREATE DATABASE {} TEMPLATE {}", database, template)

    def _admin(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _dsn(self, database: str) -> str:
        return make_conninfo(self._server, dbname=database)


def _read(line: str) -> Found:
    told = json.loads(line)
    return Found(
        told["scenario"],
        tuple(told["found"]),
        tuple(told["violations"]),
        told["error"],
        told["source"],
    )


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Try as many mutants as the size has; which of them, the seed decides."""
    return measure_some(choose(numbers("R15", size)["mutants"], seed), directory)


def choose(most: int, seed: int) -> list[Mutant]:
    """Answer so many mutants, in an order that the seed decides, different ones first.

    Each invariant that somebody has to name comes before any has its second mutant.
    """
    order = list(MUTANTS)
    Random(seed).shuffle(order)
    ranks: dict[str, Iterator[int]] = {}
    ranked = [(next(ranks.setdefault(one.expected, count())), one) for one in order]
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])][:most]


def measure_some(mutants: Sequence[Mutant], directory: Path) -> Measured:
    """Play the scenarios of these mutants with the engine as it is, then with each mutant."""
    problems: list[str] = []
    named = 0
    names = sorted({mutant.scenario for mutant in mutants})
    with _a_server() as server, ThreadPoolExecutor(AT_ONCE) as pool:
        players = Players(server, directory)
        halves = [names[number::AT_ONCE] for number in range(AT_ONCE)]
        for played in pool.map(lambda half: players.play(SOURCE, half), filter(None, halves)):
            for found in played:
                if found.found or found.error or Path(found.source) != SOURCE:
                    problems.append(_tell(f"unchanged, {found.scenario}", "none", found))
        for mutant, found in zip(
            mutants, pool.map(lambda one: _try(players, one), mutants), strict=True
        ):
            is_named = judge(mutant, found)
            named += is_named
            shown = " ".join(found.found) or "none"
            expected = mutant.expected or "none"
            verdict = "" if is_named else "  <- NOT NAMED"
            _say(f"{mutant.name:60} {expected:>5}  {shown}{verdict}")
            if not is_named:
                problems.append(_tell(mutant.name, expected, found))
    return Measured(
        {"mutants": len(mutants), "named": named, "scenarios": len(names)}, problems=problems
    )


def judge(mutant: Mutant, found: Found) -> bool:
    """Whether a mutant was named by its invariant; where nothing is promised, by none."""
    if Path(found.source) == SOURCE:
        return False
    if mutant.expected:
        return mutant.expected in found.found
    return not found.found and not found.error


def _try(players: Players, mutant: Mutant) -> Found:
    with a_copy(mutant) as source:
        (found,) = players.play(source, [mutant.scenario], is_empty=mutant.changes_schema)
    return found


def _tell(name: str, expected: str, found: Found) -> str:
    shown = " ".join(found.found) or "none"
    lines = [f"{name}: expected {expected}, found {shown}", *found.violations, found.error]
    return "\n".join(filter(None, lines))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@contextmanager
def _a_server() -> Iterator[str]:
    memory = Path("/dev/shm")
    place = str(memory) if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="relevo-mutants-", dir=place) as root:
        Path(root).chmod(0o755)
        with Embedded(Path(root) / "pg", settings=SETTINGS) as embedded:
            yield embedded.dsn()
