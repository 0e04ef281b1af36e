"""Make up organisations: for demonstrations, tests and benchmarks, the same from the same seed."""

from relevo_apps.evaluations.generator.organisation import (
    LARGEST,
    SMALLEST,
    Organisation,
    generate_organisation,
)

__all__ = ["LARGEST", "SMALLEST", "Organisation", "generate_organisation"]
