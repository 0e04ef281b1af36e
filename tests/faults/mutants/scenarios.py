"""All scenarios by name: small stories that go well with the engine as it is."""

from collections.abc import Callable, Mapping

from faults.mutants import asking, claiming, ending, working
from faults.mutants.stage import Stage

SCENARIOS: Mapping[str, Callable[[Stage], None]] = {
    scenario.__name__: scenario
    for room in (claiming, ending, asking, working)
    for scenario in room.SCENARIOS
}
