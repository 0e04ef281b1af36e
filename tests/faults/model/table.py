"""The two sides of a state machine beside each other: the database and the model, compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from faults.model.enqueueing import Asked, Enqueueing
from faults.model.gates import Place
from faults.model.oracle import Oracle, Session
from faults.model.slot import SERVED, Slot
from faults.model.world import QUEUES, World, an_app
from relevo import Enqueued
from relevo.db.drivers import run
from relevo.engine.jobs import session


class Table(RuleBasedStateMachine):
    """What all rules work on.

    Attributes:
        world: The database, one for all examples.
        oracle: The model.
        slots: The workers.
        by_hand: The limits that people set, which no declaration changes.
        late: What a transaction has asked for that is still open.
    """

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.app = an_app()
        self.kinds = {kind.name: kind for kind in self.app.registry.kinds()}
        self.oracle = Oracle(self.kinds)
        self.slots = [
            Slot(connection, served)
            for connection, served in zip(self.world.workers, SERVED, strict=True)
        ]
        self.asks = Enqueueing(self.app, self.oracle)
        self.late: list[tuple[Asked, int, Enqueued]] | None = None
        self.by_hand: set[Place] = set()
        self.is_broken = False

    @contextmanager
    def step(self) -> Iterator[None]:
        """Make one step, then compare everything that is visible."""
        self.world.steps += 1
        try:
            yield
            self.compare()
        except BaseException:
            self.is_broken = True
            raise

    def compare(self) -> None:
        """Compare all jobs; take over what the engine may choose."""
        seen = self.world.jobs(self.oracle.hour)
        assert seen.keys() == self.oracle.jobs.keys(), (
            f"not expected: {seen.keys() - self.oracle.jobs.keys()},"
            f" missing: {self.oracle.jobs.keys() - seen.keys()}"
        )
        for job_id, job in self.oracle.jobs.items():
            found = seen[job_id]
            if job.seen() != found.seen():
                msg = f"the row is  {found}\nexpected is {job}"
                raise AssertionError(msg)
            self.oracle.take_over(job, found)

    def teardown(self) -> None:
        """Compare the rest as well."""
        if not self.is_broken:
            assert self.world.attempts() == self.oracle.attempts
            here = {one.id for one in self.oracle.sessions.values() if one.exists}
            assert self.world.sessions() == here
        self.world.late.rollback()

    def operate(self, operation: Any) -> Any:
        """Perform what an operator asks for, in a transaction."""
        with self.world.workers[0].transaction():
            return run(self.world.workers[0], operation)

    def at_work(self, worker: int) -> Slot:
        """Answer a worker that has a session, if need be a new one."""
        slot = self.slots[worker]
        if not self.oracle.sessions[slot.session].exists:
            self.open(worker, 3)
        return slot

    def open(self, worker: int, lease: int) -> None:
        """Begin a session; the one before, if any, is left to the rescue."""
        slot = self.slots[worker]
        with self.step():
            served = QUEUES if worker == 0 else QUEUES[:1]
            slot.session = run(
                slot.connection,
                session.open_session(
                    f"w{worker}",
                    queues=served,
                    kinds=slot.kinds,
                    concurrency=8,
                    version="0",
                    lease=lease * 3600.0,
                ),
            )
            begun = Session(slot.session, served, slot.kinds, self.oracle.hour + lease)
            self.oracle.sessions[slot.session] = begun
