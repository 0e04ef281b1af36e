"""Where a scenario is played: one database, sessions that go step by step, one witness.

Every step is one of the engine's own operations on a connection that is named as a worker
names it. Nothing runs by itself and nothing is waited for but locks.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from faults.crash.process import Process
from faults.evidence import Witness
from faults.evidence.effect import INSERT
from faults.mutants.kinds import Kinds, play_kinds
from relevo import DEFAULT_TENANT, Operation, set_tenant
from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.db.statements import Statement
from relevo.engine.jobs import session as sessions
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from relevo.engine.jobs.settle import complete, settle
from relevo.model.job import ClaimedJob
from relevo.model.ring import Ring
from relevo.model.settlement import Action, Settlement

LEASE = 60.0
QUEUE = "default"
ROUNDS = 20
BOUND = 20.0
GATE = 4712

# How errors of the code itself begin; what the handlers of scenarios raise is none of them.
BROKEN = ("NameError", "UnboundLocalError", "AttributeError", "ImportError", "TypeError")

EXPIRE = "UPDATE relevo.workers SET expires_at = clock_timestamp() WHERE id = ANY (%s::bigint[])"
MAKE_DUE = """
UPDATE relevo.jobs
SET available_at = clock_timestamp()
WHERE state = 'available'
  AND available_at > clock_timestamp()
"""


class Stage:
    """One database, and everything that a scenario does in it.

    Args:
        dsn: The owner's address of a migrated database with evidence.
        directory: Where the witness writes.
    """

    def __init__(self, dsn: str, directory: Path) -> None:
        self.dsn = dsn
        self.path = directory / "witness"
        self.witness = Witness(self.path, is_synced=False)
        self._opened: list[psycopg.Connection] = []
        self._processes: list[Process] = []
        self._refs = iter(range(10**6))
        self._names = iter(range(10**6))

    @cached_property
    def owner(self) -> psycopg.Connection:
        """The owner, each statement committed by itself."""
        return self.connect("caller", role=None)

    @cached_property
    def kinds(self) -> Kinds:
        """What can be enqueued; handlers report to the witness."""
        return play_kinds(self.witness)

    def connect(
        self, purpose: str, name: str = "stage", role: str | None = WORKER_ROLE
    ) -> psycopg.Connection:
        """Open a connection under the name of its purpose, each statement committed by itself."""
        dsn = with_session(
            self.dsn,
            role=role,
            application_name=f"relevo {purpose} {name}",
            settings=ENGINE_SETTINGS if role == WORKER_ROLE else None,
        )
        self._opened.append(psycopg.connect(dsn, autocommit=True))
        return self._opened[-1]

    def a_tenant(self) -> UUID:
        """Add a tenant."""
        tenant_id = uuid4()
        slug = f"t{tenant_id.hex[:8]}"
        self.owner.execute(
            "INSERT INTO relevo.tenants VALUES (%s, %s, %s)", [tenant_id, slug, slug]
        )
        return tenant_id

    def enqueue(
        self,
        kind: str = "play.work",
        number: int = 1,
        connection: psycopg.Connection | None = None,
        **options: Any,
    ) -> list[int]:
        """Enqueue so many jobs one after the other, in one transaction; answer their ids."""
        connection = connection or self.owner
        refs = [f"r{next(self._refs)}" for _ in range(number)]
        about = {"unit": refs[0], "kind": kind, "key": options.get("key")}
        tenant = options.get("tenant_id", DEFAULT_TENANT)
        for ref in refs:
            self.witness.note("intent", ref=ref, tenant_id=tenant, **about)
        job = self.kinds.kinds[kind].with_options(**options)
        with connection.transaction():
            run(connection, set_tenant(tenant))
            found = [job.enqueue(connection, ref=ref) for ref in refs]
        for ref, one in zip(refs, found, strict=True):
            self.witness.note("enqueued", ref=ref, job_id=one.id, created=one.created)
        return [one.id for one in found if one.id is not None]

    def operate(self, operation: Operation[Any], tenant_id: UUID | None = None) -> Any:
        """Run what an operator asks for, in a transaction, as a tenant or as nobody."""
        with self.owner.transaction():
            if tenant_id is not None:
                run(self.owner, set_tenant(tenant_id))
            return run(self.owner, operation)

    def session(self, lease: float = LEASE) -> "Session":
        """Open a worker's session."""
        return Session(self, f"w{next(self._names)}", lease)

    def process(self) -> Process:
        """A worker's process with a session, whose loops are stepped."""
        process = Worker(self.dsn, f"p{next(self._names)}", self.kinds.app, queues=(QUEUE,))
        self._processes.append(process)
        process.beat()
        return process

    def make_due(self) -> None:
        """Let nothing wait for its time."""
        self.owner.execute(MAKE_DUE)

    def drain(self) -> None:
        """End every session, and let a new one take over until nothing is due."""
        found = self.owner.execute("SELECT id FROM relevo.workers").fetchall()
        self.owner.execute(EXPIRE, [[row[0] for row in found]])
        last = self.session()
        for _ in range(ROUNDS):
            last.rescue()
            self.make_due()
            last.ring = Ring()
            jobs = last.claim()
            for job in jobs:
                last.complete(job)
            if not jobs:
                return

    def close(self) -> None:
        """Leave nothing open."""
        for process in self._processes:
            process.close()
        for connection in self._opened:
            connection.close()
        self.witness.close()

    @contextmanager
    def beside(self, work: Callable[[], object]) -> Iterator[Future[Any]]:
        """Start work in a thread, and go on when it waits for a lock or is done."""
        keeper = self.connect("keeper", role=None)
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            self._await_waiter(keeper, future)
            yield future
            future.result(BOUND)

    @contextmanager
    def paused(
        self, statements: dict[str, Statement], name: str, at: str, work: Callable[[], object]
    ) -> Iterator[Future[Any]]:
        """Run work until its statement has looked and has locked nothing; go on at the end.

        Args:
            statements: Where the statement is.
            name: What it is called.
            at: A condition of it, which is asked when the snapshot has been taken.
            work: What executes it.
        """
        plain = statements[name]
        assert plain.sql.count(at) == 1, (name, at)
        gate = f"{at} AND (SELECT pg_advisory_xact_lock_shared({GATE}) IS NOT NULL)"
        keeper = self.connect("keeper", role=None)
        keeper.execute("SELECT pg_advisory_lock(%s)", [GATE])
        statements[name] = Statement(name, plain.sql.replace(at, gate))
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(work)
            self._await_waiter(keeper, future)
            assert not future.done(), future.result()
            statements[name] = plain
            try:
                yield future
            finally:
                keeper.execute("SELECT pg_advisory_unlock(%s)", [GATE])
                future.result(BOUND)

    @staticmethod
    def _await_waiter(keeper: psycopg.Connection, future: Future[Any]) -> None:
        waiting = (
            "SELECT count(*) FROM pg_locks WHERE NOT granted"
            " AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())"
        )
        end = time.monotonic() + BOUND
        while not future.done() and keeper.execute(waiting).fetchone() == (0,):
            assert time.monotonic() < end, "nobody waits for a lock"
            time.sleep(0.005)


class Worker(Process):
    """A process whose handlers may fail, and whose code may not: that ends the scenario."""

    def _run(self, worker: int, job: ClaimedJob) -> Settlement | None:
        decided = super()._run(worker, job)
        return None if decided is None else refuse_broken(decided)


def refuse_broken(decided: Settlement) -> Settlement:
    """Raise where a handler ended because the code under it is broken; answer what it decided."""
    if (decided.error or "").startswith(BROKEN):
        raise RuntimeError(decided.trace or decided.error)
    return decided


class Session:
    """A worker's session, one operation at a time; what it remembers of a queue is its ring."""

    def __init__(self, stage: Stage, name: str, lease: float) -> None:
        self._stage, self.name, self.ring = stage, name, Ring()
        self._lease = lease
        kinds = stage.kinds.names
        opening = sessions.open_session(
            name, queues=[QUEUE], kinds=kinds, concurrency=8, version="0", lease=lease
        )
        self.id: int = run(self.connection("heartbeat"), opening)

    def connection(self, purpose: str) -> psycopg.Connection:
        """Open a connection of the session."""
        return self._stage.connect(purpose, self.name)

    @cached_property
    def claiming(self) -> psycopg.Connection:
        """The claimer's connection."""
        return self.connection("claim")

    @cached_property
    def settling(self) -> psycopg.Connection:
        """The settler's connection."""
        return self.connection("settle")

    @cached_property
    def handling(self) -> psycopg.Connection:
        """A handler's connection."""
        return self.connection("handlers")

    @cached_property
    def rescuing(self) -> psycopg.Connection:
        """The rescuer's connection."""
        return self.connection("rescue")

    def claim(self, limit: int = 10, *, start: bool = True) -> list[ClaimedJob]:
        """Claim at most so many jobs, and start them."""
        kinds = self._stage.kinds.names
        jobs = run(self.claiming, claim(self.id, QUEUE, kinds, limit, self.ring))
        ids = [job.id for job in jobs]
        self._stage.witness.note("claimed", session=self.id, asked=limit, jobs=ids)
        for job in jobs if start else ():
            self.note("start", job)
        return jobs

    def note(self, what: str, job: ClaimedJob) -> None:
        """Tell the witness about one start of a job."""
        about = {"job_id": job.id, "tenant_id": job.tenant_id, "attempt": job.attempt}
        self._stage.witness.note(what, **about, kind=job.kind, session=self.id)

    def answer(
        self, jobs: Sequence[ClaimedJob] | ClaimedJob, action: Action, **values: Any
    ) -> dict[Any, Any]:
        """Let handlers return, and write their answers as the settler does."""
        jobs = [jobs] if isinstance(jobs, ClaimedJob) else jobs
        for job in jobs:
            self.note("end", job)
        batch = [Settlement(job.tenant_id, job.id, job.attempt, action, **values) for job in jobs]
        queue_of = dict.fromkeys([job.id for job in jobs], QUEUE)
        return run(self.settling, settle(self.id, queue_of, batch))

    def complete(self, job: ClaimedJob) -> bool:
        """Write an effect and complete the job with it in one transaction, or neither."""
        done = Settlement(job.tenant_id, job.id, job.attempt, Action.COMPLETED)
        is_ours = False
        with self.handling.transaction():
            run(self.handling, set_tenant(job.tenant_id))
            self.handling.execute(INSERT, [job.tenant_id, job.id, job.attempt, self.id, "done"])
            is_ours = run(self.handling, complete(self.id, done))
            if not is_ours:
                raise psycopg.Rollback
        return is_ours

    def renew(self, connection: psycopg.Connection) -> None:
        """Renew the lease, and note until when the session may rely on it."""
        asked_at = time.time()
        if run(connection, sessions.renew(self.id, self._lease)):
            until = round((asked_at + self._lease) * 1_000_000)
            self._stage.witness.note("renewed", session=self.id, until=until)

    def fall_silent(self) -> None:
        """Let the lease run out: nothing is heard of it any more."""
        self._stage.owner.execute(EXPIRE, [[self.id]])

    def end_sessions(self) -> None:
        """End those whose lease has run out, as the rescuer does first."""
        run(self.rescuing, end_expired_sessions())

    def rescue(self) -> None:
        """End silent sessions, and take back their jobs."""
        self.end_sessions()
        with self.rescuing.transaction():
            run(self.rescuing, rescue_lost_jobs())


SOON = timedelta(milliseconds=1)
LATER = timedelta(hours=1)
