"""What the rounds of a campaign found, added up."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from faults.campaigns.ground import Ground
from faults.checker import Violation, check, report
from faults.checker.sinks import count_repeats
from faults.checker.story import is_claim, is_end, tell
from faults.evidence import History
from faults.measured import Measured

COUNTED = {
    "lost": ("I1", "I2"),
    "double_effects": ("I5",),
    "starts_beyond_their_number": ("I3",),
}


@dataclass
class Verdict:
    """Counts, violations and problems of all rounds so far.

    Attributes:
        counts: What the campaign itself counted, such as kills, first in what is printed.
    """

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def judge(self, ground: Ground) -> History:
        """Let a round settle, read its evidence and check it."""
        ground.settle()
        history = ground.history()
        violations = check(history)
        if violations or ground.problems:
            keep(history, violations, ground.directory / "evidence.txt")
        self.violations += violations
        self.problems += ground.problems
        self.counts.update(count(history))
        self.counts["unknown_enqueues"] += ground.load.unknown
        return history

    def measured(self) -> Measured:
        """Answer the figure."""
        broken = Counter(violation.invariant for violation in self.violations)
        told = {what: sum(broken[one] for one in names) for what, names in COUNTED.items()}
        return Measured({**self.counts, **told}, self.violations, self.problems)


def keep(history: History, violations: list[Violation], path: Path) -> None:
    """Write down everything that is known of a round, in the order of time."""
    pieces = (*history.events, *history.effects, *history.attempts, *history.notes)
    lines = [report(violations), *tell(*history.sessions, *pieces, *history.jobs)]
    path.write_text("\n".join(lines), encoding="utf-8")


def count(history: History) -> dict[str, int]:
    """Answer how much a round put to the test."""
    outcomes = Counter(attempt.outcome for attempt in history.attempts)
    return {
        "jobs": len({event.job_id for event in history.events}),
        "starts": sum(map(is_claim, history.events)),
        "ends": sum(map(is_end, history.events)),
        "starts_lost": outcomes["lost"],
        "effects": len(history.effects),
        "repeated_deliveries": count_repeats(history.notes),
    }
