"""What a campaign answers, and how it is printed so that anybody can run it again."""

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.checker.violation import Violation, report


@dataclass(frozen=True, slots=True)
class Measured:
    """What one campaign found.

    Attributes:
        counts: What was counted, in the order in which it is printed, such as kills, jobs,
            lost, double effects and the mix of faults.
        violations: Broken promises; a figure is published only where there are none.
        problems: What else was not as promised, in words.
    """

    counts: Mapping[str, float | int | str]
    violations: Sequence[Violation] = field(default_factory=tuple)
    problems: Sequence[str] = field(default_factory=tuple)

    @property
    def is_clean(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations and not self.problems


def commit() -> str:
    """Answer the commit that is measured; `+` where the tree is not as committed."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        found = subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=False
        )
        return found.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parents[1]))
    return (git("rev-parse", "--short", "HEAD") or "unknown") + ("+" if changed else "")


def line(figure: str, measured: Measured, **about: object) -> str:
    """Answer one figure as one line of JSON, with everything that repeats it."""
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return json.dumps(
        {
            "figure": figure,
            **measured.counts,
            "violations": len(measured.violations),
            "problems": list(measured.problems),
            **about,
            "commit": commit(),
            "machine": machine,
        }
    )


def story(measured: Measured) -> str:
    """Answer what went wrong, to be read by a person."""
    lines = [report(measured.violations)] if measured.violations else []
    return "\n".join([*lines, *measured.problems])
