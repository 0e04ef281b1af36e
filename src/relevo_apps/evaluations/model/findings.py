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

    What is wrong is a template over the finding's subject and detail; what to do is one over
    the name of the cycle and the id of the person, written so that a shell takes them.
    """

    NO_PARTICIPANTS = (
        "no_participants",
        Severity.BLOCKED,
        "the cycle has no participants",
        (
            "run `relevo cycle participants %(cycle)s --add all`, "
            "then `relevo cycle generate %(cycle)s`"
        ),
    )
    NO_EVALUATIONS = (
        "no_evaluations",
        Severity.BLOCKED,
        "nobody is asked to evaluate anybody",
        "run `relevo cycle generate %(cycle)s`",
    )
    PARTICIPANT_WITHOUT_EVALUATION = (
        "participant_without_evaluation",
        Severity.BLOCKED,
        "nobody evaluates %(subject)s",
        (
            "run `relevo cycle generate %(cycle)s`, name peers with `relevo cycle peers`, "
            "or run `relevo cycle participants %(cycle)s --remove %(person)s`"
        ),
    )
    EVALUATOR_INACTIVE = (
        "evaluator_inactive",
        Severity.BLOCKED,
        "%(subject)s has left and is asked to evaluate",
        (
            "import who leads now with `relevo people import` and run "
            "`relevo cycle generate %(cycle)s`, or take whom they evaluate out with "
            "`relevo cycle participants %(cycle)s --remove`"
        ),
    )
    EVALUATOR_WITHOUT_EMAIL = (
        "evaluator_without_email",
        Severity.BLOCKED,
        "%(subject)s is asked to evaluate and has no e-mail address",
        "complete the address in the people file and import it with `relevo people import`",
    )
    DUE_PAST = (
        "due_past",
        Severity.WARNING,
        "the evaluations were due on %(detail)s, which is past",
        (
            "run `relevo cycle delete %(cycle)s` and create the cycle again with another day, "
            "unless it is meant so"
        ),
    )
    PARTICIPANT_INACTIVE = (
        "participant_inactive",
        Severity.WARNING,
        "%(subject)s has left and is still evaluated",
        (
            "run `relevo cycle participants %(cycle)s --remove %(person)s`, "
            "unless the evaluation is wanted"
        ),
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
        (
            "import the manager with `relevo people import` and run "
            "`relevo cycle generate %(cycle)s`, unless it is meant so"
        ),
    )
    MANAGER_CHANGED = (
        "manager_changed",
        Severity.WARNING,
        "%(subject)s has another manager than the one who is asked (%(detail)s)",
        "run `relevo cycle generate %(cycle)s` to follow the change",
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
