"""Campaigns as tests: a new seed each time, told with the evidence where a promise was broken."""

import random
import sys
from collections.abc import Callable
from pathlib import Path

from faults.measured import Measured, story


def measure_and_check(measure: Callable[[int, Path], Measured], directory: Path) -> Measured:
    """Run a small campaign from a new seed, and insist that it found nothing."""
    seed = random.SystemRandom().randrange(2**31)
    sys.stdout.write(f"seed {seed}, evidence in {directory}\n")
    measured = measure(seed, directory)
    sys.stdout.write(f"{dict(measured.counts)}\n")
    assert measured.is_clean, f"seed {seed}, evidence in {directory}: {story(measured)}"
    return measured
