"""R12: steps over the public interface and the engine's operations, each judged by the model.

`measure` makes as many steps as the size says, in examples of fifty, all from one seed. An
example that disagrees is made as short as it can be and printed as a program.
"""

import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from faults.campaigns.ground import a_server
from faults.measured import Measured
from faults.model.asking import DECLARED, Asking
from faults.model.enqueueing import EXPIRIES, Asked, asked, like
from faults.model.slot import SERVED
from faults.model.working import Working
from faults.model.world import World, a_world
from faults.sizes import Size, numbers

STEPS = 50
CHUNK = 200
"""Examples from one seed of Hypothesis; the next chunk takes the next seed."""
spans = st.sampled_from([1, 1, 1, 2, 3, 24 * 8, 24 * 31])


class Machine(Working, Asking):
    """All rules. Each works on the database and on the model, and compares what they say."""

    @initialize(what=st.lists(asked(), min_size=2, max_size=8), is_limited=st.booleans())
    def begin(self, what: list[Asked], *, is_limited: bool) -> None:
        """An empty database, workers, some jobs, and perhaps the limits that code declares."""
        self.world.reset()
        for worker in range(len(SERVED)):
            self.open(worker, 3)
        with self.step():
            self.asks.together(self.world.web, what, is_kept=True)
        if is_limited:
            for kind in DECLARED:
                self.declare(kind, is_declared=True)

    @rule(what=asked(), end=st.sampled_from(["commit", "rollback", "savepoint", "undone"]))
    def enqueue(self, what: Asked, end: str) -> None:
        """One job, or as many as have been asked for, in a transaction that ends so or so."""
        with self.step():
            self.asks.one(self.world.web, what, end)

    @rule(pick=st.integers(0, 63), key_for=st.sampled_from(EXPIRIES))
    def enqueue_again(self, pick: int, key_for: int) -> None:
        """One for a key that a job has: those that expire first come first."""
        keyed = [job for job in self.oracle.jobs.values() if job.has_key]
        keyed.sort(key=lambda job: (job.key_expires is None, job.key_expires or 0, job.id))
        if keyed:
            with self.step():
                what = like(keyed[pick % len(keyed)], key_for)
                self.asks.one(self.world.web, what, "commit")

    @rule(what=st.lists(asked(), min_size=2, max_size=4), is_kept=st.booleans())
    def enqueue_together(self, what: list[Asked], *, is_kept: bool) -> None:
        """Several in one transaction."""
        with self.step():
            self.asks.together(self.world.web, what, is_kept=is_kept)

    @rule(what=asked(), keys=st.lists(st.sampled_from([None, "x", "y"]), min_size=1, max_size=4))
    def enqueue_many(self, what: Asked, keys: list[str | None]) -> None:
        """Many of a kind in one statement."""
        with self.step():
            self.asks.many(self.world.web, what, keys)

    @rule(what=st.lists(asked(is_keyed=False), min_size=1, max_size=2), is_kept=st.booleans())
    def enqueue_late(self, what: list[Asked], *, is_kept: bool) -> None:
        """In a transaction that stays open, or the end of the one that is open."""
        with self.step():
            if self.late is None:
                self.late = self.asks.ask_late(self.world.late, what)
                return
            if is_kept:
                self.world.late.commit()
                self.asks.take_late(self.late)
            else:
                self.world.late.rollback()
            self.late = None

    @rule(by=spans)
    def advance(self, by: int) -> None:
        """Let hours go by."""
        with self.step():
            self.world.advance(by, (ring for slot in self.slots for ring in slot.rings.values()))
            self.oracle.hour += by


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Make as many steps as the size says."""
    return measure_steps(numbers("R12", size)["steps"], seed, directory)


def measure_steps(steps: int, first: int, directory: Path) -> Measured:
    """Make at least so many steps, until one disagrees.

    Args:
        steps: How many.
        first: The seed of the first chunk of examples.
        directory: Where a failing example is kept.
    """
    with a_server(is_durable=False) as server:
        dsn = server.create("model", "template_faults")
        with a_world(dsn) as world:
            found = explore(world, steps, first)
    if found:
        (directory / "example.txt").write_text(found)
    counts = {"steps": world.steps, "examples": world.examples, "disagreements": int(bool(found))}
    counts.update(sorted(world.tally.items()))
    return Measured(counts, problems=[found] if found else [])


def explore(world: World, steps: int, first: int, *, shrinks: bool = True) -> str:
    """Make steps in a world; answer the example that disagrees, or nothing."""
    machine = type("Machine", (Machine,), {"world": world})
    phases = [Phase.generate, Phase.shrink] if shrinks else [Phase.generate]
    chunk = 0
    while world.steps < steps:
        examples = min(CHUNK, -(-(steps - world.steps) // STEPS))
        how = settings(
            max_examples=max(10, examples),
            stateful_step_count=STEPS,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        try:
            run_state_machine_as_test(seed(first + chunk)(machine), settings=how)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is the finding
            return "".join(traceback.format_exception(error))
        chunk += 1
    return ""
