"""A worker's process without its threads: the same loops, one step at a time.

The harness decides what happens next. Heartbeat, claimer, settler, rescuer and pruner are
the engine's own; only what runs the handlers is replaced, by a loop in the order of claims.
"""

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

import psycopg

from relevo import Context, Relevo, WorkerSettings
from relevo.db.connect import EngineConnection
from relevo.db.dsn import ENGINE_SETTINGS, HANDLER_SETTINGS, WORKER_ROLE, with_session
from relevo.db.pools import HandlerPools
from relevo.engine.jobs import session
from relevo.engine.jobs.rescue import rescue_lost_jobs
from relevo.engine.limits import declare_limits
from relevo.loops.claimer import Claimer
from relevo.loops.context import Hold
from relevo.loops.heartbeat import Heartbeat
from relevo.loops.pruner import ArchivedMonths, FinishedJobs, Permits
from relevo.loops.rescuer import Rescuer
from relevo.loops.settler import Answer, Settler
from relevo.loops.signals import Signal
from relevo.model import settlement
from relevo.model.job import ClaimedJob
from relevo.model.ring import Ring

T = TypeVar("T")

LEASE = timedelta(seconds=60)

TRIES = 20

QUEUES = ("default", "mail", "paused")


class Pools(HandlerPools):
    """One connection, opened when it is needed; no threads."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn, 1)
        self._connection: psycopg.Connection | None = None

    @contextmanager
    def sync_transaction(self) -> Generator[psycopg.Connection]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn)
        with self._connection.transaction():
            yield self._connection


class Slots:
    """What the claimer sees of the handlers; a job waits until the harness runs it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held: list[tuple[int, str, ClaimedJob]] = []

    @property
    def running(self) -> int:
        return len(self.held)

    @property
    def free(self) -> int:
        return self.size - len(self.held)

    def job_ids(self) -> list[int]:
        return [job.id for _, _, job in self.held]

    def start(self, worker: int, queue: str, jobs: Sequence[ClaimedJob]) -> None:
        self.held.extend((worker, queue, job) for job in jobs)

    def start_next_alone(self) -> None:
        """Everything runs alone here."""


class Process:
    """One process of a worker.

    Args:
        dsn: The owner's; each connection takes the role and the settings of its purpose.
        name: Its name, also in the names of its connections.
        app: What it can run.
        slots: How many jobs it holds at once.
        queues: Which queues it serves.
    """

    def __init__(
        self, dsn: str, name: str, app: Relevo, slots: int = 8, queues: tuple[str, ...] = QUEUES
    ) -> None:
        self._dsn, self.name, self._registry = dsn, name, app.registry
        self._runner = asyncio.Runner()
        loop = self._runner.get_loop()
        self._settings = WorkerSettings(dsn, name=name, lease=LEASE, queues=queues)
        self._random = Random(1)  # noqa: S311 -- jitter, no secret
        self.slots = Slots(slots)
        self.pools = Pools(self._session("handlers", role=WORKER_ROLE, settings=HANDLER_SETTINGS))
        self.heartbeat = Heartbeat(
            self._settings, self._engine("heartbeat"), self._registry.names(), _nothing, self._end
        )
        self.settler = Settler(EngineConnection(self._engine("settle")), Signal(loop), lambda: None)
        self._connections = {
            p: EngineConnection(self._engine(p)) for p in ("claim", "rescue", "prune")
        }
        self.claimer = Claimer(
            settings=self._settings,
            connection=self._connections["claim"],
            heartbeat=self.heartbeat,
            handlers=self.slots,  # type: ignore[arg-type]
            settler=self.settler,
            changed=Signal(loop),
            woken=Signal(loop),
            kinds=self._registry.kinds(),
            on_idle=_nothing,
        )

    def beat(self) -> None:
        """Open the session, or renew it."""
        self.heartbeat._beat()

    def _end(self, worker: int) -> None:
        """A session has ended: what it held is handed back, as the handlers do."""
        lost = [one for one in self.slots.held if one[0] == worker]
        self.slots.held = [one for one in self.slots.held if one[0] != worker]
        for _, queue, job in lost:
            back = settlement.release(self._registry.find(job.kind), job, "worker lost")
            self.settler.put(Answer(worker, queue, back))

    def declare(self) -> None:
        """Say what the kinds declare, as a claimer does before its first claim."""
        operation = declare_limits(self._registry.kinds())
        self._await(self._connections["claim"].run(operation, in_transaction=True))

    def claim(self) -> int:
        """Look in every queue once; answer how many jobs it holds."""
        assert self.heartbeat.worker is not None
        self._await(self.claimer._claim_all(self.heartbeat.worker, self._settings.queues))
        return len(self.slots.held)

    def resolve_doubt(self) -> None:
        """Hand back what it holds and does not know, as after a claim whose answer was lost."""
        assert self.heartbeat.worker is not None
        self.claimer._doubtful = (self.heartbeat.worker, 0.0)
        self._await(self.claimer._resolve_doubt(self.heartbeat.worker, at_once=True))

    def recover(self) -> None:
        """Do what its loops do after an error: connect, beat, resolve doubts, and go on."""
        self.heartbeat._drop()
        self.beat()
        self.resolve_doubt()
        self.work()
        self.settle()

    def find_due(self) -> None:
        """Look for queues in which something is due."""
        self._await(self.claimer._find_due())

    def mark_idle(self, *, idle: bool) -> None:
        """Say whether it wants to be woken."""
        assert self.heartbeat.worker is not None
        marking = session.mark_idle(self.heartbeat.worker, idle=idle)
        self._await(self._connections["claim"].run(marking))

    def hand_back(self, number: int) -> None:
        """Give back so many jobs that it has not started."""
        for worker, queue, job in self.slots.held[:number]:
            back = settlement.release(None, job, "the worker stops")
            self.settler.put(Answer(worker, queue, back))
        del self.slots.held[:number]

    def forget(self) -> None:
        """Remember no lane and no pace, so that the next claim sweeps at once."""
        self.claimer._rings = {queue: Ring() for queue in self._settings.queues}

    def work(self) -> None:
        """Run every job that it holds, in order; their answers wait for the settler."""
        while self.slots.held:
            worker, queue, job = self.slots.held[0]
            decided = self._run(worker, job)
            self.slots.held.pop(0)
            if decided is not None:
                self.settler.put(Answer(worker, queue, decided))

    def _run(self, worker: int, job: ClaimedJob) -> settlement.Settlement | None:
        kind = self._registry.find(job.kind)
        assert kind is not None
        hold = Hold(kind, job, worker, self.pools)
        try:
            answer = kind.handler(Context(hold), **kind.schema.decode(job.payload))
        except Exception as error:  # noqa: BLE001 -- a handler may raise anything
            return settlement.settle_error(kind, job, error, self._random)
        decided = settlement.settle_answer(kind, job, answer, self._random)
        return None if hold.completed else decided

    def settle(self) -> None:
        """Write the answers that wait; a real settler would not give up a server that is away."""
        for _ in range(TRIES):
            if not self.settler.backlog:
                return
            self._await(self.settler._write_next())
        raise psycopg.OperationalError("the answers could not be written")

    def rescue(self) -> None:
        """Look once for sessions that fell silent."""
        rescuer = Rescuer(
            self._settings, self._connections["rescue"], self._registry.kept(), self.heartbeat
        )
        # It need not wait for a server that has just started; no worker has such a lease.
        rescuer._lease = 0.0
        self._await(rescuer._tick())

    def prune(self) -> None:
        """Go once round the duties of the pruner."""
        connection = self._connections["prune"]
        for duty in (FinishedJobs(connection), ArchivedMonths(connection), Permits(connection)):
            self._await(duty.step())

    def stop(self) -> None:
        """Give the session back, as the last steps of a worker that stops well."""
        worker, connection = self.heartbeat.worker, self._connections["rescue"]
        assert worker is not None
        self._await(connection.run(session.stop_taking(worker)))
        self._await(connection.run(session.close_session(worker, self._settings.queues)))
        rescuing = rescue_lost_jobs(self._registry.kept())
        self._await(connection.run(rescuing, in_transaction=True))

    def close(self) -> None:
        """Forget it; its connections are cut by whoever opened them."""
        self._runner.close()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _engine(self, purpose: str) -> str:
        return self._session(purpose, role=WORKER_ROLE, settings=ENGINE_SETTINGS)

    def _session(self, purpose: str, **options: Any) -> str:
        return with_session(self._dsn, application_name=f"relevo {purpose} {self.name}", **options)


def _nothing(*_: object) -> None:
    pass
