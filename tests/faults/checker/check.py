"""All invariants over one history."""

from collections.abc import Callable, Collection, Iterator

from faults.checker.story import Story
from faults.checker.transitions import transitions
from faults.checker.violation import INVARIANTS, Violation
from faults.evidence.records import History

Rule = Callable[[Story], Iterator[Violation]]

RULES: tuple[Rule, ...] = (transitions,)


def check(
    history: History, *, quiescent: bool = True, allow: Collection[str] = ()
) -> list[Violation]:
    """Answer every broken promise that the evidence shows, by invariant.

    Args:
        history: What happened.
        quiescent: Whether faults had stopped and everything had time to settle.
        allow: Invariants that the run does not promise, such as `I9` beside workers of a
            version that knows no limits.
    """
    story = Story(history)
    found = [violation for rule in RULES for violation in rule(story)]
    order = list(INVARIANTS)
    found = [one for one in found if one.invariant not in allow]
    return sorted(found, key=lambda one: order.index(one.invariant))
