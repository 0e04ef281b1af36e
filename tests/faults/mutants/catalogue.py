"""All mutants, by what they break: the one list that the runner and its tests read."""

from faults.mutants.broken_claims import CLAIMS
from faults.mutants.broken_ends import ENDS
from faults.mutants.broken_requests import REQUESTS
from faults.mutants.broken_sessions import SESSIONS
from faults.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*CLAIMS, *ENDS, *SESSIONS, *REQUESTS)
