"""All invariants over one history."""

from collections.abc import Callable, Collection, Iterator

from faults.checker.attempts import attempts
from faults.checker.conservation import conservation
from faults.checker.cycles import cycles
from faults.checker.fencing import fencing
from faults.checker.keys import keys
from faults.checker.lanes import lanes
from faults.checker.limits import limits
from faults.checker.quiescence import quiescence
from faults.checker.realtime import realtime
from faults.checker.sinks import sinks
from faults.checker.story import Story
from faults.checker.tenants import tenants
from faults.checker.transitions import transitions
from faults.checker.validity import validity
from faults.checker.violation import INVARIANTS, Violation
from faults.evidence.records import History

Rule = Callable[[Story], Iterator[Violation]]

RULES: dict[str, Rule] = {
    "I1": conservation,
    "I2": quiescence,
    "I3": attempts,
    "I4": validity,
    "I5": fencing,
    "I6": transitions,
    "I7": realtime,
    "I8": keys,
    "I9": limits,
    "I10": lanes,
    "I13": cycles,
    "I14": tenants,
    "I15": sinks,
}


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
    story = Story(history, quiescent=quiescent)
    wanted = [invariant for invariant in INVARIANTS if invariant not in allow]
    return [violation for invariant in wanted for violation in RULES[invariant](story)]
