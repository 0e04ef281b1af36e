"""Compare two sides round by round: what the machine did meanwhile met both alike."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ratio:
    """One side's figure over the other's in the same round.

    Attributes:
        median: The ratio of the middle round.
        lowest: The smallest of all rounds.
        highest: The largest of all rounds.
    """

    median: float
    lowest: float
    highest: float


def compare(own: Mapping[int, float], base: Mapping[int, float]) -> Ratio | None:
    """Answer the ratio of two sides over the rounds that both have; None where there is none.

    Args:
        own: The figure of each round.
        base: What it is compared with, of each round; a zero is no figure.
    """
    ratios = [own[number] / base[number] for number in own if base.get(number)]
    if not ratios:
        return None
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))
