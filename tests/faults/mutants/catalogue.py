"""All mutants, by what they break: the one list that the runner and its tests read."""

from collections.abc import Mapping

from faults.mutants.broken_claims import CLAIMS
from faults.mutants.broken_cycles import CYCLES
from faults.mutants.broken_ends import ENDS
from faults.mutants.broken_requests import REQUESTS
from faults.mutants.broken_sessions import SESSIONS
from faults.mutants.broken_workers import WORKERS
from faults.mutants.mutant import Mutant

GROUPS: Mapping[str, tuple[Mutant, ...]] = {
    "claims": CLAIMS,
    "ends": ENDS,
    "sessions": SESSIONS,
    "requests": REQUESTS,
    "cycles": CYCLES,
    "workers": WORKERS,
}

MUTANTS: tuple[Mutant, ...] = tuple(mutant for group in GROUPS.values() for mutant in group)
