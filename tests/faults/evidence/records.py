"""What the evidence is made of: frozen values, so that a history can be written by hand.

Times are whole microseconds since 1970, by the clock of whoever wrote the record. Every
field that a hand-made history seldom needs has a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from relevo import DEFAULT_TENANT
from relevo.model.ids import NO_LANE

FOREVER = 2**62
"""A time that never comes."""

Snapshot = tuple[int, int, frozenset[int]]
"""xmin, xmax, and the transactions that were under way in between."""


def has_seen(snapshot: Snapshot, xact: int) -> bool:
    """Whether a transaction had committed, or failed, when the snapshot was taken."""
    xmin, xmax, under_way = snapshot
    return xact < xmin or (xact < xmax and xact not in under_way)


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one job's row, as the trigger saw it.

    Attributes:
        seq: Its number among all evidence; a change that could only follow another is later.
        op: `insert`, `update`, `delete`, or `found` for what was there before the evidence.
        at: When the row was written; its transaction committed later.
        began_at: When its transaction began.
        xact: Its transaction.
        snapshot: What had committed when the trigger ran.
        program: The `application_name` of whoever did it.
        scope: The tenant that its transaction was set to, or nothing.
        old_mark: A digest of the row before, `mark` of the row after.
        version: Its place among the changes of the job, from 1.
    """

    seq: int
    op: str
    job_id: int
    state: str = "available"
    attempt: int = 0
    worker: int | None = None
    old_state: str | None = None
    old_attempt: int | None = None
    old_worker: int | None = None
    version: int = 0
    at: int = 0
    began_at: int = 0
    xact: int = 0
    snapshot: Snapshot = (0, 0, frozenset())
    program: str = ""
    scope: str = ""
    tenant_id: UUID = DEFAULT_TENANT
    old_tenant_id: UUID | None = None
    old_mark: int | None = None
    mark: int | None = None
    excused: int = 0
    losses: int = 0
    max_attempts: int = 6
    priority: int = 2
    queue: str = "default"
    kind: str = "test.work"
    lane: UUID = NO_LANE
    lane_key: str | None = None
    aggregate_id: str | None = None
    waiting_key: str | None = None
    live_key: str | None = None
    key: str | None = None
    available_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    cancel_requested_at: int | None = None
    requeued_at: int | None = None
    prune_at: int | None = None
    ref: str | None = None
    evaluator: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether the job may still start."""
        return self.op != "delete" and self.state in ("available", "running")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a handler wrote in the transaction of its job."""

    seq: int
    job_id: int
    attempt: int
    session: int
    key: str = "effect"
    xact: int = 0
    at: int = 0
    tenant_id: UUID = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the engine's own history."""

    job_id: int
    attempt: int
    outcome: str
    worker: int | None = None
    tenant_id: UUID = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Job:
    """A job's row when the history was read; an archived one only says how it ended."""

    id: int
    state: str
    attempt: int = 0
    tenant_id: UUID = DEFAULT_TENANT
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    """A worker's session: from the insert of its row to the delete.

    Attributes:
        expires_at: When its lease runs out, or ran out, as last written.
        ended_at: When its row was deleted; None while it is there.
        end_seq: The number of that delete among all evidence.
        shortened_by: The programs that set its lease to an earlier time than it had.
    """

    id: int
    name: str = "worker"
    queues: tuple[str, ...] = ("default",)
    kinds: tuple[str, ...] = ("test.work",)
    opened_at: int = 0
    expires_at: int = FOREVER
    ended_at: int | None = None
    end_seq: int | None = None
    shortened_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A change of `relevo.limits`."""

    seq: int
    op: str
    scope: str
    name: str
    measure: str = "running"
    most: int = 1
    seconds: float | None = None
    id: int = 1
    xact: int = 0
    at: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that stood when the history was read."""

    scope: str
    name: str
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Archiving:
    """Whether finished jobs go to the archive from now on."""

    seq: int
    is_on: bool
    at: int = 0


@dataclass(frozen=True, slots=True)
class CycleChange:
    """Rows of a cycle that left or reached a state in one statement.

    Attributes:
        what: `cycle` or `evaluations`.
        gone: How many rows had the state before, `come` after.
        evaluators: Who is asked by those that have it after.
    """

    seq: int
    what: str
    cycle_id: UUID
    state: str
    gone: int = 0
    come: int = 0
    evaluators: tuple[UUID, ...] = ()
    xact: int = 0
    at: int = 0
    tenant_id: UUID = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class Note:
    """A line of a witness.

    Attributes:
        what: What was seen.
        at: When, by the clock of that process.
        source: The witness, and `number` the line in it.
        fields: Everything else that the line says.
    """

    what: str
    at: int = 0
    source: str = "witness"
    number: int = 0
    pid: int = 0
    ref: str | None = None
    job_id: int | None = None
    attempt: int | None = None
    tenant_id: UUID | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_line(cls, line: dict[str, Any], *, source: str, number: int) -> "Note":
        """Read what `Witness.note` wrote."""
        tenant = line.pop("tenant_id", None)
        return cls(
            what=line.pop("what"),
            at=line.pop("at") // 1000,
            source=source,
            number=number,
            pid=line.pop("pid"),
            ref=line.pop("ref", None),
            job_id=line.pop("job_id", None),
            attempt=line.pop("attempt", None),
            tenant_id=None if tenant is None else UUID(tenant),
            fields=line,
        )


@dataclass(frozen=True, slots=True)
class History:
    """Everything that is known about a run; pure data.

    Attributes:
        events: Every change of every job, in the order of their numbers.
        effects: What handlers wrote with their completions.
        attempts: The engine's own history of starts.
        jobs: The rows at the end, archived ones among them.
        notes: What the witnesses saw.
        sessions: Every session of a worker.
        limits: Every change of a limit.
        pauses: The pauses that stood at the end.
        archiving: When the archive was on.
        cycles: What happened to cycles.
        read_at: When it was read, by the database's clock.
    """

    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    jobs: tuple[Job, ...] = ()
    notes: tuple[Note, ...] = ()
    sessions: tuple[Session, ...] = ()
    limits: tuple[LimitChange, ...] = ()
    pauses: tuple[Pause, ...] = ()
    archiving: tuple[Archiving, ...] = ()
    cycles: tuple[CycleChange, ...] = ()
    read_at: int = 0
