"""What the checker answers: which promise was broken, and the evidence that shows it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

INVARIANTS = {
    "I1": "conservation: what was acknowledged is there, and nothing else is",
    "I2": "quiescence: every job has ended, or waits for something that has a name",
    "I3": "attempts: one by one, no more than allowed, one end each",
    "I4": "no two sessions hold a job at once",
    "I5": "fencing: an effect and an end belong to the token that was valid",
    "I6": "each change follows the one before, by an allowed transition",
    "I7": "what returned before something else began comes before it",
    "I8": "one active job for each unique key",
    "I9": "no more than a limit allows",
    "I10": "one after the other in an ordered lane, in their order",
    "I13": "a cycle is activated as a whole or not at all",
    "I14": "the tenant never changes",
    "I15": "each completed delivery reached its sink, under one key",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise.

    Attributes:
        invariant: Which one, `I1` to `I15`.
        message: What is wrong, with the values at fault.
        slice: The evidence that shows it, in the order of time, one line each.
    """

    invariant: str
    message: str
    slice: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The whole story, to be printed."""
        lines = [f"{self.invariant} ({INVARIANTS[self.invariant]}): {self.message}"]
        return "\n".join([*lines, *(f"    {line}" for line in self.slice)])


def report(violations: Iterable[Violation], most: int = 20) -> str:
    """Answer the first violations as text, and how many there are."""
    found = list(violations)
    shown = [str(violation) for violation in found[:most]]
    return "\n".join([f"{len(found)} violations", *shown])
