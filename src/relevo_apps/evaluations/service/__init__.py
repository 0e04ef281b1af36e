"""What evaluation cycles can do, as operations inside the caller's transaction.

Nothing here commits. Expected refusals of single people are part of the answer;
a refusal of the whole is an error that is raised before anything is written.
"""

from relevo_apps.evaluations.service.activation import activate, preflight, record_refusal
from relevo_apps.evaluations.service.drafts import (
    add_participants,
    add_peers,
    create_cycle,
    delete_draft,
    find_cycle,
    generate_evaluations,
    remove_participants,
)
from relevo_apps.evaluations.service.people import count_people, import_people, list_people
from relevo_apps.evaluations.service.recall import recall
from relevo_apps.evaluations.service.status import cycle_status, list_notifications

__all__ = [
    "activate",
    "add_participants",
    "add_peers",
    "count_people",
    "create_cycle",
    "cycle_status",
    "delete_draft",
    "find_cycle",
    "generate_evaluations",
    "import_people",
    "list_notifications",
    "list_people",
    "preflight",
    "recall",
    "record_refusal",
    "remove_participants",
]
