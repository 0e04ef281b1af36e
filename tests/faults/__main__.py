"""Measure figures: python -m faults [SIZE [R1 R2 …]] [--seed N] [--keep FOLDER].

Without a size it prints which figures there are. The exit code is 1 where a promise was
broken, and the evidence of such a run is kept; it is 2 where a figure was not measured.
"""

import argparse
import importlib
import importlib.util
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from faults.measured import Measured, line, story
from faults.sizes import FIGURES, Size, numbers

Measure = Callable[[Size, int, Path], Measured]


def main(words: Sequence[str]) -> int:
    """Answer the exit code."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("size", nargs="?", choices=list(Size))
    parser.add_argument("figures", nargs="*", metavar="R", help="which figures; default is all")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parser.add_argument("--keep", type=Path, default=None, help="where evidence is kept")
    given = parser.parse_args(words)
    if unknown := set(given.figures) - FIGURES.keys():
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    if given.size is None:
        _say(table())
        return 0
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    size = Size(given.size)
    wanted = given.figures or [name for name in FIGURES if numbers(name, size) and find(name)]
    return max([_measure(name, size, seed, given.keep) for name in wanted], default=0)


def table() -> str:
    """Answer the figures that exist, with their numbers at each size."""
    lines = [f"{'':4} {'pull-request':>24} {'nightly':>24} {'release':>24}"]
    for name, figure in FIGURES.items():
        if find(name) is not None:
            cells = [_words(name, size) for size in Size]
            lines.append(f"{name:4} {cells[0]:>24} {cells[1]:>24} {cells[2]:>24}  {figure.what}")
    return "\n".join(lines)


def _words(name: str, size: Size) -> str:
    return ", ".join(f"{word} {number:,}" for word, number in numbers(name, size).items()) or "-"


def find(name: str) -> Measure | None:
    """Answer what measures a figure, or None where there is nothing yet."""
    place, _, function = FIGURES[name].where.partition(":")
    if not place:
        return None
    room = f"faults.{place.rpartition('.')[0]}"
    if (
        importlib.util.find_spec(room) is None
        or importlib.util.find_spec(f"faults.{place}") is None
    ):
        return None
    return getattr(importlib.import_module(f"faults.{place}"), function, None)


def _measure(name: str, size: Size, seed: int, keep: Path | None) -> int:
    measure = find(name)
    if measure is None or not numbers(name, size):
        _say(f"{name} is not measured at the size {size}", sys.stderr)
        return 2
    command = f"PYTHONPATH=tests python -m faults {size} {name} --seed {seed}"
    _say(f"{name}: {command}", sys.stderr)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=f"faults-{name}-", dir=keep))
    begun_at = time.monotonic()
    measured = measure(size, seed, directory)
    seconds = round(time.monotonic() - begun_at, 1)
    _say(line(name, measured, size=size, seconds=seconds, seed=seed, command=command))
    if measured.is_clean:
        shutil.rmtree(directory, ignore_errors=True)
        return 0
    _say(f"{story(measured)}\nthe evidence is in {directory}", sys.stderr)
    return 1


def _say(text: str, to: TextIO | None = None) -> None:
    out = to or sys.stdout
    out.write(f"{text}\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
