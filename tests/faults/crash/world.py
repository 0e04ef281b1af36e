"""What a scenario works in: one database, one process, and what its witnesses saw."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg

from faults.crash.kinds import Kinds, crash_kinds
from faults.crash.points import Points
from faults.crash.process import Process
from faults.crash.server import Server
from faults.evidence import Witness
from relevo import Enqueued
from relevo.db.dsn import with_session

ROUNDS = 60
CONNECTIONS = 5
"""A process has so many that may be dead when it goes on."""

EXPIRE = """
UPDATE relevo.workers
SET expires_at = clock_timestamp()
WHERE expires_at > clock_timestamp()
"""
UNFINISHED = "SELECT count(*) FROM relevo.jobs WHERE live AND kind <> 'nobody.knows'"
MAKE_DUE = """
UPDATE relevo.jobs
SET available_at = clock_timestamp()
WHERE state = 'available'
  AND available_at > clock_timestamp()
"""


@dataclass
class World:
    """One database of one run.

    Attributes:
        server: Where it is.
        dsn: The owner's address of it.
        directory: Where the witnesses' files are.
        points: What counts, and fails.
        name: Whose turn it is: the process before a crash, or the one after.
        has_limits: Whether processes declare what their kinds are limited to.
        slices: Which parts of the server's log belong to what was counted.
    """

    server: Server
    dsn: str
    directory: Path
    points: Points
    name: str = "first"
    has_limits: bool = False
    slices: list[tuple[int, int]] = field(default_factory=list)
    _started: list[Process] = field(default_factory=list)
    _witnesses: list[Witness] = field(default_factory=list)

    @cached_property
    def witness(self) -> Witness:
        """What the enqueuer saw."""
        return self._watch("caller")

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of job; their handlers have a witness of their own."""
        return crash_kinds(self._watch("worker"))

    def _watch(self, who: str) -> Witness:
        # Only processes are killed here, never the machine, so nothing has to reach the disk.
        self._witnesses.append(Witness(self.directory / f"{self.name}-{who}", is_synced=False))
        return self._witnesses[-1]

    def start(self) -> Process:
        """A worker's process that has done nothing yet."""
        self._started.append(Process(self.dsn, self.name, self.kinds.app))
        return self._started[-1]

    @cached_property
    def process(self) -> Process:
        """A worker's process with a session, which has declared its limits."""
        process = self.start()
        process.beat()
        if self.has_limits:
            process.declare()
        return process

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is sent inside, and remember where the server logs it."""
        begun = self.server.log_size()
        with self.points.counting():
            yield
        self.slices.append((begun, self.server.log_size()))

    def connect(self, purpose: str = "caller", **options: Any) -> psycopg.Connection[Any]:
        """Open a connection under the name of its purpose."""
        dsn = with_session(self.dsn, application_name=f"relevo {purpose} {self.name}", **options)
        return psycopg.connect(dsn)

    def some(self, **numbers: int) -> None:
        """Enqueue so many jobs of each kind."""
        with self.connect() as connection:
            for kind, number in numbers.items():
                refs = [f"{kind}-{n}" for n in range(number)]
                self.enqueue(connection, f"crash.{kind}", refs)

    def enqueue(
        self, connection: psycopg.Connection[Any], kind: str, refs: Sequence[str], **options: Any
    ) -> None:
        """Enqueue one after the other in one transaction, and tell the witness how it went."""
        with self.told(refs, kind=kind, key=options.get("key")) as ids, connection.transaction():
            job = self.kinds.kinds[kind].with_options(**options)
            ids.extend(job.enqueue(connection, ref=ref) for ref in refs)

    @contextmanager
    def told(self, refs: Sequence[str], **about: Any) -> Iterator[list[Any]]:
        """Note the intent, and afterwards what came of it; nothing where the process dies."""
        for ref in refs:
            self.witness.note("intent", ref=ref, unit=refs[0], **about)
        enqueued: list[Any] = []
        try:
            yield enqueued
        except psycopg.Error:
            self.witness.note("unknown", unit=refs[0])
            raise
        for ref, one in zip(refs, enqueued, strict=True):
            self.witness.note("enqueued", ref=ref, job_id=one.id, created=one.created)

    def created(self, ref: str) -> Enqueued:
        """A job that was inserted by SQL, as an enqueue would have answered it."""
        (job_id,) = self.row("SELECT id FROM relevo.jobs WHERE payload ->> 'ref' = %s", ref)
        return Enqueued(job_id, created=True)

    def make_due(self) -> None:
        """Let nothing wait for its time."""
        self.run(MAKE_DUE)

    def go_on(self) -> None:
        """Let the process go on as its loops do after an error: all it has is its memory."""
        self.__dict__["process"] = self._started[-1]
        self._steadily(self._recover)

    def _recover(self) -> None:
        self.process.recover()
        if self.has_limits:
            self.process.declare()

    def _steadily(self, step: Callable[[], None]) -> None:
        """Take a step; where a connection turns out to be dead, once more on a new one."""
        for left in reversed(range(CONNECTIONS)):
            try:
                step()
            except psycopg.OperationalError:
                if not left:
                    raise
                self.process.resolve_doubt()
            else:
                return

    def drain(self, *, expires: bool = True) -> None:
        """Work until nothing is left to do.

        Args:
            expires: Whether the sessions of before are over, and a new process takes over;
                else the one of before goes on, and may find connections that have died.
        """
        take = self._steadily if not expires else _at_once
        with psycopg.Connection.connect(self.dsn, autocommit=True) as owner:
            if expires:
                owner.execute(EXPIRE)
            take(self.process.rescue)
            # What the handlers of before still waited for need not be waited for here.
            for _ in range(ROUNDS):
                owner.execute("DELETE FROM relevo.pauses")
                owner.execute(MAKE_DUE)
                take(self._round)
                if owner.execute(UNFINISHED).fetchone() == (0,):
                    return

    def _round(self) -> None:
        self.process.forget()
        self.process.claim()
        self.process.work()
        self.process.settle()

    def row(self, query: str, *params: object) -> tuple[Any, ...]:
        """The first row of a query, asked by the owner."""
        with psycopg.Connection.connect(self.dsn) as owner:
            row = owner.execute(query.encode(), params or None).fetchone()
        assert row is not None
        return row

    def run(self, statement: str) -> None:
        """Execute as the owner."""
        with psycopg.Connection.connect(self.dsn) as owner:
            owner.execute(statement.encode())

    def close(self) -> None:
        """Leave nothing open."""
        self.points.cut_all()
        for process in self._started:
            process.close()
        self._started.clear()
        for witness in self._witnesses:
            witness.close()
        self._witnesses.clear()


Step = Callable[[World], None]


def _at_once(step: Callable[[], None]) -> None:
    step()


def nothing(_: World) -> None:
    """Do nothing."""


def no_problems(_: World) -> list[str]:
    """What the checker finds is all there is to say."""
    return []


@dataclass(frozen=True)
class Scenario:
    """Something that is interrupted at every point.

    Attributes:
        name: What it is called.
        act: Do it; what is inside `counting` is interrupted.
        prepare: Done once, in a database that every run gets a copy of.
        again: What its caller does after the crash, before the jobs are worked off.
        problems: What the checker cannot see, in words, when everything is over.
        has_limits: Whether the kinds' limits are declared.
        is_migrated: Whether the database has the schema before it begins.
        goes_on: Whether its process may live on after an error, instead of a crash.
        is_alone: Whether no other database of the server may have been migrated.
    """

    name: str
    act: Step
    prepare: Step = nothing
    again: Step = nothing
    problems: Callable[[World], list[str]] = no_problems
    has_limits: bool = False
    is_migrated: bool = True
    is_alone: bool = False
    goes_on: bool = False
