"""Three sources that know nothing of each other: events, effects, and witnesses.

Events are written by triggers in the transaction of each change, effects by handlers in
the transaction of their job, witnesses by processes outside the database.
"""

from faults.evidence.effect import record_effect
from faults.evidence.history import History, read_history
from faults.evidence.install import install
from faults.evidence.records import (
    Archiving,
    Attempt,
    CycleChange,
    Effect,
    Event,
    Job,
    LimitChange,
    Note,
    Pause,
    Session,
)
from faults.evidence.samples import sample_cycles
from faults.evidence.witness import Witness, read_notes

__all__ = [
    "Archiving",
    "Attempt",
    "CycleChange",
    "Effect",
    "Event",
    "History",
    "Job",
    "LimitChange",
    "Note",
    "Pause",
    "Session",
    "Witness",
    "install",
    "read_history",
    "read_notes",
    "record_effect",
    "sample_cycles",
]
