"""Make up organisations: for demonstrations, tests and benchmarks, the same from the same seed."""

from relevo_apps.evaluations.generator.changes import change_organisation
from relevo_apps.evaluations.generator.defects import DEFECTS, add_defects
from relevo_apps.evaluations.generator.organisation import (
    LARGEST,
    SMALLEST,
    Organisation,
    generate_organisation,
)

__all__ = [
    "DEFECTS",
    "LARGEST",
    "SMALLEST",
    "Organisation",
    "add_defects",
    "change_organisation",
    "generate_organisation",
]
