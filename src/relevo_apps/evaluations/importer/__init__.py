"""Read the people file and the peers file: from bytes to checked records, no database.

Whatever is wrong is answered row by row with its line, column and value, and with
what to do about it; reading never stops at the first mistake it can get past.
"""

from relevo_apps.evaluations.importer.checks import CheckedFile, check_people
from relevo_apps.evaluations.importer.dates import DateOrder
from relevo_apps.evaluations.importer.peers import PeersFile, read_peers
from relevo_apps.evaluations.importer.people import PeopleFile, ReadOptions, read_people
from relevo_apps.evaluations.importer.problems import Problem, ProblemKind
from relevo_apps.evaluations.importer.report import ImportReport

__all__ = [
    "CheckedFile",
    "DateOrder",
    "ImportReport",
    "PeersFile",
    "PeopleFile",
    "Problem",
    "ProblemKind",
    "ReadOptions",
    "check_people",
    "read_peers",
    "read_people",
]
