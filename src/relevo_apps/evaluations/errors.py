"""The refusals of evaluation cycles: one class per thing a caller would catch."""

from typing import ClassVar

from relevo import RelevoError
from relevo_apps.evaluations.model.findings import Finding


class CycleNotFound(RelevoError):
    """No cycle of the tenant has this id or name."""

    template: ClassVar[str] = (
        "there is no cycle '%(cycle)s'; check the name, or create it with `relevo cycle create`"
    )


class CycleExists(RelevoError):
    """The name is taken."""

    template: ClassVar[str] = (
        "cycle '%(name)s' already exists and is %(state)s; choose another name"
    )


class CycleNotDraft(RelevoError):
    """Only a draft changes its people or is activated."""

    template: ClassVar[str] = (
        "cycle '%(name)s' is %(state)s, and only a draft can be changed or activated; "
        "see where it stands with `relevo cycle status`"
    )


class CycleNotActive(RelevoError):
    """Only an active cycle can be recalled."""

    template: ClassVar[str] = (
        "cycle '%(name)s' is %(state)s, and only an active cycle can be recalled; "
        "see where it stands with `relevo cycle status`"
    )


class ActivationBlocked(RelevoError):
    """The activation met findings that block it; nothing was written.

    Attributes:
        findings: Everything found, warnings included.
    """

    template: ClassVar[str] = (
        "cycle '%(name)s' cannot be activated: findings that block it: %(blocked)s, "
        "the first one: %(first)s; list all of them with `relevo cycle preflight`"
    )
    findings: tuple[Finding, ...]


class OneFindingBlocks(ActivationBlocked):
    """The same, where a single finding blocks."""

    template: ClassVar[str] = (
        "cycle '%(name)s' cannot be activated, 1 finding blocks it: %(first)s; "
        "see it with `relevo cycle preflight`"
    )


class RecallRefused(RelevoError):
    """Answers would be lost."""

    template: ClassVar[str] = (
        "cycle '%(name)s' cannot be recalled: evaluations already submitted: %(submitted)s, "
        "and their answers would be lost; let the cycle go on"
    )


class PeersNotInRules(RelevoError):
    """The cycle does not ask peers."""

    template: ClassVar[str] = (
        "cycle '%(name)s' does not ask peers (its rules: %(rules)s); "
        "create the cycle with the rule 'peer'"
    )


class SnapshotTooOld(RelevoError):
    """The transaction would not see what was committed while it waited for the cycle."""

    template: ClassVar[str] = (
        "cycle '%(name)s' changes its state in a READ COMMITTED transaction only, and this one "
        "is %(isolation)s, so it would miss people who were added while it waited; "
        "begin a transaction with READ COMMITTED"
    )
