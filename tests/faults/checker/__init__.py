"""Judge a history: pure functions, no database and no clock."""

from faults.checker.check import check
from faults.checker.violation import INVARIANTS, Violation, report

__all__ = ["INVARIANTS", "Violation", "check", "report"]
