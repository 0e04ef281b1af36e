"""R10: activation, recall, changes, sending and crashes of a cycle, interleaved at random.

Several actors work on one cycle, each on its own connection. Between any two statements a
scheduler decides from a seed who goes on, and whose backend ends instead; and it looks at
the cycle after each step as anybody else would.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import psycopg

from apps.cycle_factory import ACTOR, a_draft, a_tenant, import_text, is_blocked, until
from factories import a_worker, claim_some, settle_some
from faults.campaigns.ground import BOUND, a_server
from faults.checker import Violation, check
from faults.evidence import History, Witness, install, read_history, sample_cycles
from faults.measured import Measured
from faults.sizes import Size, numbers
from relevo import Operation, RelevoError
from relevo.db.drivers import run
from relevo.db.migrate import ENGINE, Line, migrate
from relevo_apps.evaluations import service
from relevo_apps.evaluations.generator import generate_organisation

EVALUATIONS = Line("evaluations", "relevo_apps.evaluations.migrations")
NOTIFICATION = "cycle.dispatched"
QUEUE = "mail"

OF_A_ROUND = 100
"""So many interleavings share a database."""

PEOPLE = 10
ACTORS = 3
CRASHES = 0.03
"""How often a step is the end of somebody's backend."""

Act: TypeAlias = Callable[["Actor"], None]

# The hold would outlive the interleaving.
MAKE_DUE = """
UPDATE relevo.jobs
SET available_at = now()
WHERE aggregate_id = %s
  AND state = 'available'
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """One cycle, and whoever else takes part."""

    dsn: str
    tenant: UUID
    cycle_id: UUID
    people: list[str]
    worker: int


class Actor(threading.Thread):
    """Does one thing after another, and waits for its turn before each statement and commit."""

    def __init__(self, stage: Stage, acts: list[Act]) -> None:
        super().__init__(daemon=True)
        self.stage, self._acts = stage, acts
        self.connection = psycopg.connect(stage.dsn)
        self.pid = self.connection.info.backend_pid
        self._turn = threading.Semaphore(0)
        self.is_waiting = threading.Event()
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for act in self._acts:
                try:
                    with self.connection.transaction():
                        act(self)
                        self.pause()
                    self.counts["done"] += 1
                except RelevoError:
                    self.counts["refused"] += 1
        except psycopg.errors.DeadlockDetected:
            self.counts["deadlocks"] += 1
        except psycopg.OperationalError:
            self.counts["crashed"] += 1
        except BaseException as error:  # noqa: BLE001 -- told by the scheduler
            self.failure = error
        finally:
            self.connection.close()

    def pause(self) -> None:
        """Wait until the scheduler lets it go on."""
        self.is_waiting.set()
        self._turn.acquire()

    def go_on(self) -> None:
        """Let it do one step."""
        self.is_waiting.clear()
        self._turn.release()

    def perform(self, operation: Operation[Any]) -> Any:
        """Run an operation of the application, statement by statement."""
        return run(self.connection, self._gated(operation))

    def _gated(self, operation: Operation[Any]) -> Operation[Any]:
        try:
            call = next(operation)
            while True:
                self.pause()
                try:
                    rows = yield call
                except BaseException as error:  # noqa: BLE001 -- handed on to the operation
                    call = operation.throw(error)
                else:
                    call = operation.send(rows)
        except StopIteration as stop:
            return stop.value


def activate(actor: Actor) -> None:
    """Activate the cycle."""
    stage = actor.stage
    actor.perform(service.activate(stage.tenant, stage.cycle_id, actor=ACTOR))


def look(actor: Actor) -> None:
    """Try an activation and take it back."""
    stage = actor.stage
    actor.perform(service.preflight(stage.tenant, stage.cycle_id, actor=ACTOR))


def recall(actor: Actor) -> None:
    """Take an activation back."""
    stage = actor.stage
    actor.perform(service.recall(stage.tenant, stage.cycle_id, actor=ACTOR))


def add(actor: Actor) -> None:
    """Let everybody take part who does not yet."""
    stage = actor.stage
    actor.perform(service.add_participants(stage.tenant, stage.cycle_id, None, actor=ACTOR))
    actor.perform(service.generate_evaluations(stage.tenant, stage.cycle_id, actor=ACTOR))


def remove(actor: Actor) -> None:
    """Take somebody out."""
    stage = actor.stage
    some = stage.people[:1]
    actor.perform(service.remove_participants(stage.tenant, stage.cycle_id, some, actor=ACTOR))


def send(actor: Actor) -> None:
    """Send letters as a worker does: claim, and settle what was claimed."""
    stage, connection = actor.stage, actor.connection
    actor.pause()
    connection.execute(MAKE_DUE, [str(stage.cycle_id)])
    claimed = claim_some(connection, stage.worker, 2, queue=QUEUE, kinds=(NOTIFICATION,))
    actor.pause()
    settle_some(connection, stage.worker, claimed)


SHARES: dict[Act, int] = {activate: 5, recall: 3, add: 2, remove: 1, look: 1, send: 2}


def measure(size: Size, seed: int, directory: Path) -> Measured:
    """Interleave as often as the size says."""
    return measure_interleavings(numbers("R10", size)["interleavings"], seed, directory)


def measure_interleavings(interleavings: int, seed: int, directory: Path) -> Measured:
    """Interleave so often, each time on a cycle of its own."""
    random = Random(seed)  # noqa: S311 -- repeats a run, no secret
    counts: Counter[str] = Counter(interleavings=interleavings)
    violations: list[Violation] = []
    with a_server(is_durable=False) as server:
        migrate(server.create("template_cycles"), [ENGINE, EVALUATIONS])
        install(server.dsn("template_cycles"))
        for number, begin in enumerate(range(0, interleavings, OF_A_ROUND)):
            dsn = server.create(f"cycles_{number}", "template_cycles")
            witness = Witness(directory / f"sampler{number}.witness", is_synced=False)
            for one in range(min(OF_A_ROUND, interleavings - begin)):
                counts += _interleave(a_stage(dsn, one + 2), random, witness)
            witness.close()
            history = read_history(dsn, [witness.path])
            violations += check(history, quiescent=False)
            counts += count_turns(history)
            server.drop(f"cycles_{number}")
    half = sum(violation.invariant == "I13" for violation in violations)
    problems = [] if counts["activations"] else ["no activation was committed: nothing was tried"]
    turns = {what: counts[what] for what in ("activations", "recalls")}
    return Measured({**counts, **turns, "half_activated_or_mixed": half}, violations, problems)


def count_turns(history: History) -> Counter[str]:
    """Count the transactions that activated a cycle, and those that took an activation back."""
    moves: dict[tuple[UUID, int], Counter[str]] = defaultdict(Counter)
    for change in history.cycles:
        if change.what == "cycle":
            moves[change.cycle_id, change.xact][change.state] += change.come - change.gone
    return Counter(
        "activations" if move["active"] > 0 else "recalls"
        for move in moves.values()
        if move["draft"] * move["active"] < 0
    )


def a_stage(dsn: str, number: int) -> Stage:
    """A tenant of its own with a draft in which some take part."""
    with psycopg.connect(dsn) as connection:
        tenant = a_tenant(connection, number)
        import_text(connection, generate_organisation(PEOPLE, seed=number).csv(), tenant)
        people = [
            external_id
            for (external_id,) in connection.execute(
                "SELECT external_id FROM evaluations.people WHERE tenant_id = %s ORDER BY 1",
                [tenant],
            )
        ]
        cycle = a_draft(connection, "2025", tenant=tenant, people=people[:-2])
        worker = a_worker(connection, queues=(QUEUE,), kinds=(NOTIFICATION,), lease=3600)
    return Stage(dsn, tenant, cycle.id, people, worker)


def _interleave(stage: Stage, random: Random, witness: Witness) -> Counter[str]:
    counts: Counter[str] = Counter()
    actors = [
        Actor(stage, random.choices(list(SHARES), list(SHARES.values()), k=random.randint(1, 3)))
        for _ in range(ACTORS)
    ]
    for actor in actors:
        actor.start()
    with psycopg.connect(stage.dsn, autocommit=True) as watcher:
        for actor in _turns(actors, random):
            if random.random() < CRASHES:
                watcher.execute("SELECT pg_terminate_backend(%s)", [actor.pid])
            actor.go_on()
            counts["steps"] += 1
            until(lambda a=actor: _has_stepped(a, watcher), "the end of a step", BOUND)
            counts["samples"] += sample_cycles(watcher, witness, stage.tenant)
    for actor in actors:
        actor.join()
        if actor.failure is not None:
            raise actor.failure
        counts += actor.counts
    return counts


def _turns(actors: list[Actor], random: Random) -> Iterator[Actor]:
    """Choose who goes on, among those who do not wait for a lock, until all have ended."""
    end = time.monotonic() + BOUND
    while living := [actor for actor in actors if actor.is_alive()]:
        assert time.monotonic() < end, "an interleaving does not end"
        if ready := [actor for actor in living if actor.is_waiting.is_set()]:
            yield random.choice(ready)
        else:
            living[0].join(0.001)


def _has_stepped(actor: Actor, watcher: psycopg.Connection) -> bool:
    return actor.is_waiting.wait(0.001) or not actor.is_alive() or is_blocked(watcher, actor.pid)
