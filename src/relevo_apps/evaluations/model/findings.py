"""What stands in the way of an activation, and what only deserves a look.

The database finds; which finding blocks is decided here, in one place, so that the
preflight and the activation cannot disagree.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum


class Severity(StrEnum):
    """Whether a finding refuses the activation."""

    WARNING = "warning"
    BLOCKED = "blocked"


class FindingKind(Enum):
    """Each kind of finding: its severity, what is wrong, and what to do.

    The texts are templates over the finding's subject and detail.
    """

    NO_PARTICIPANTS = (
        "no_participants",
        Severity.BLOCKED,
        "the cycle has no participants",
        "add participants, then generate the evaluations",
    )
    NO_EVALUATIONS = (
        "no_evaluations",
        Severity.BLOCKED,
        "nobody is asked to evaluate anybody",
        "generate the evaluations of the cycle",
    )
    PARTICIPANT_WITHOUT_EVALUATION = (
        "participant_without_evaluation",
        Severity.BLOCKED,
        "nobody evaluates %(subject)s",
        "generate the evaluations again, name peers, or remove the participant",
    )
    EVALUATOR_INACTIVE = (
        "evaluator_inactive",
        Severity.BLOCKED,
        "%(subject)s has left and is asked to evaluate",
        "import the new manager and generate the evaluations again, or remove the participant",
    )
    EVALUATOR_WITHOUT_EMAIL = (
        "evaluator_without_email",
        Severity.BLOCKED,
        "%(subject)s is asked to evaluate and has no e-mail address",
        "import the address",
    )
    PARTICIPANT_INACTIVE = (
        "participant_inactive",
        Severity.WARNING,
        "%(subject)s has left and is still evaluated",
        "remove the participant unless the evaluation is wanted",
    )
    SHARED_EMAIL = (
        "shared_email",
        Severity.WARNING,
        "%(subject)s shares the address %(detail)s with another evaluator",
        "check the address: each of them is written to separately",
    )
    WITHOUT_MANAGER = (
        "without_manager",
        Severity.WARNING,
        "%(subject)s is evaluated by no manager",
        "import the manager and generate the evaluations again, unless it is meant so",
    )
    MANAGER_CHANGED = (
        "manager_changed",
        Severity.WARNING,
        "%(subject)s has another manager than the one who is asked (%(detail)s)",
        "generate the evaluations again to follow the change",
    )

    def __init__(self, code: str, severity: Severity, what: str, todo: str) -> None:
        self.code = code
        self.severity = severity
        self.what = what
        self.todo = todo

    @classmethod
    def of(cls, code: str) -> "FindingKind":
        """Answer the kind with this code.

        Args:
            code: The word that the database answered.
        """
        return _KINDS[code]


_KINDS = {kind.code: kind for kind in FindingKind}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the activation would meet.

    Attributes:
        kind: What it is.
        external_id: Whom it concerns; empty when it concerns the whole cycle.
        subject: Their full name.
        detail: A value that explains it, such as an address.
    """

    kind: FindingKind
    external_id: str = ""
    subject: str = ""
    detail: str = ""

    @property
    def what(self) -> str:
        """Say what is wrong, in English."""
        return self.kind.what % {"subject": self.subject, "detail": self.detail}

    @property
    def is_blocking(self) -> bool:
        """Say whether the activation is refused because of it."""
        return self.kind.severity is Severity.BLOCKED


def split_findings(findings: list[Finding]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """Part the findings into those that block and those that warn.

    Args:
        findings: All of them, in the order to show.

    Returns:
        The blocking ones, then the warnings.
    """
    blocked = tuple(finding for finding in findings if finding.is_blocking)
    warnings = tuple(finding for finding in findings if not finding.is_blocking)
    return blocked, warnings
