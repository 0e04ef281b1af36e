"""What one notification tells one person, and whether it is still to be told."""

from dataclasses import dataclass
from datetime import date

from relevo_apps.evaluations.model.cycles import CycleState, Relation
from relevo_apps.evaluations.model.people import Language


@dataclass(frozen=True, slots=True)
class Asked:
    """One evaluation that somebody is asked for.

    Attributes:
        relation: What the person who is asked is to the participant.
        participant: The full name of the person to be evaluated.
    """

    relation: Relation
    participant: str


@dataclass(frozen=True, slots=True)
class Invitation:
    """A person, a cycle, and the evaluations that still wait for the person.

    Attributes:
        cycle: The cycle's name.
        state: Where the cycle stands.
        due_on: The day until which evaluations are expected, if one was set.
        full_name: Who is asked.
        first_name: May be empty when only the full name is known.
        email: Where to write to, if anywhere.
        language: The language to write in.
        active: False for people who left.
        asked: The evaluations, in the order to show.
    """

    cycle: str
    state: CycleState
    due_on: date | None
    full_name: str
    first_name: str
    email: str | None
    language: Language
    active: bool
    asked: tuple[Asked, ...]

    @property
    def is_obsolete(self) -> str:
        """Say why nothing is to be sent any more; empty when it still is."""
        if self.state is CycleState.DRAFT:
            return f"cycle '{self.cycle}' was recalled before this message was sent"
        if self.state is not CycleState.ACTIVE:
            return f"cycle '{self.cycle}' is {self.state.value} and asks for nothing any more"
        if not self.asked:
            return f"cycle '{self.cycle}' asks {self.full_name} for nothing any more"
        return ""

    @property
    def is_undeliverable(self) -> str:
        """Say why the person cannot be written to; empty when they can."""
        if not self.active:
            return f"{self.full_name} has left; recall the cycle and name another evaluator"
        if not self.email:
            return (
                f"{self.full_name} has no e-mail address; import the address, "
                "then retry this job with `relevo jobs retry`"
            )
        return ""
