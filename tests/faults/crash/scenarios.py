"""Everything that is interrupted, in the order in which it is reported."""

from faults.crash.calling import CALLING
from faults.crash.keeping import KEEPING
from faults.crash.migrating import MIGRATING
from faults.crash.operating import OPERATING
from faults.crash.working import WORKING
from faults.crash.world import Scenario

SCENARIOS: tuple[Scenario, ...] = (*CALLING, *WORKING, *KEEPING, *OPERATING, *MIGRATING)

IN_PULL_REQUESTS = ("enqueue", "activation", "claim", "settle")

PULL_REQUEST = tuple(one for one in SCENARIOS if one.name in IN_PULL_REQUESTS)
