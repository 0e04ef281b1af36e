"""The real side: one database for many examples, its connections, and what is visible in it.

Time goes on in whole hours, by moving all that was written into the past. An example takes
seconds, so what is due in an hour is due after one such move and not before.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import class_row

import relevo.engine.jobs.claim as claims
from faults.model.jobs import ModelJob
from faults.model.oracle import Trace
from relevo import KEEP, Backoff, Context, Limit, Relevo, Retention
from relevo.model.ring import Ring

TENANTS: Final = tuple(UUID(int=0x4000_0000_0000_4000_8000 + number) for number in range(2))
QUEUES: Final = ("a", "b")
HOUR: Final = timedelta(hours=1)
RETRY: Final = Backoff(base=HOUR, factor=1, cap=HOUR)
RULES: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "kept": {"retention": KEEP},
    "brief": {"retention": Retention(HOUR, 2 * HOUR), "max_attempts": 1, "queue": "b"},
    "laned": {"limits": (Limit(1, per="lane"),), "max_attempts": 3},
    "paced": {"limits": (Limit(2, within=2 * HOUR), Limit(3))},
    "ordered": {"ordered": True, "max_attempts": 2},
}
KINDS: Final = tuple(RULES)

READ_JOBS: Final = """
SELECT
    j.id, j.tenant_id AS tenant, j.queue, j.kind, (j.payload ->> 'ref')::integer AS ref,
    j.priority, j.max_attempts, j.aggregate_id AS aggregate, j.lane_key, j.waiting_key,
    j.live_key, j.key, j.state, j.attempt, j.excused, j.losses, j.worker, j.lane,
    j.available_at AS place, j.last_error AS error,
    j.cancel_requested_at IS NOT NULL AS asked,
    coalesce(j.requeued_at > coalesce(j.started_at, '-infinity'), false) AS again,
    model.hour(j.available_at) AS due,
    model.hour(j.key_expires_at) AS key_expires,
    model.hour(j.finished_at) AS finished,
    model.hour(j.started_at) AS started,
    model.hour(j.prune_at) AS prune
FROM relevo.jobs AS j
"""
HOUR_OF: Final = """
CREATE FUNCTION model.hour(at timestamptz) RETURNS integer LANGUAGE sql STABLE RETURN
    round(extract(epoch FROM at - now()) / 3600)::integer
"""
READ_ATTEMPTS: Final = "SELECT job_id, attempt, outcome, worker, error FROM relevo.attempts"
READ_SESSIONS: Final = "SELECT id FROM relevo.workers"


def an_app() -> Relevo:
    """Declare the kinds."""
    app = Relevo(tenants="multi")
    for name, rules in RULES.items():

        def work(_ctx: Context, ref: int) -> None:
            """Nothing: the machine says what a handler answered."""

        app.job(name, **{"queue": "a", "retry": RETRY, **rules})(work)
    return app


@dataclass
class Monotonic:
    """The worker's own clock: it only goes on when the machine says so."""

    now: float = 0.0

    def monotonic(self) -> float:
        """Answer what `time.monotonic` would."""
        return self.now


@dataclass
class World:
    """The database and its connections.

    Attributes:
        owner: Reads everything, and moves the time.
        web: Enqueues, as who serves people does; under row-level security.
        late: A transaction of the same sort that stays open over several steps.
        workers: One connection for each worker.
        steps: How many steps were made.
        tally: How often what happened: a machine that never gets there sees nothing.
    """

    dsn: str
    owner: psycopg.Connection
    web: psycopg.Connection
    late: psycopg.Connection
    workers: tuple[psycopg.Connection, ...]
    clock: Monotonic = field(default_factory=Monotonic)
    steps: int = 0
    examples: int = 0
    tally: Counter[str] = field(default_factory=Counter)

    def reset(self) -> None:
        """Leave nothing of the example before."""
        for connection in (self.web, self.late, *self.workers):
            connection.rollback()
        self.owner.execute("SELECT model.reset()")
        if self.examples % 50 == 0:
            self.owner.execute(
                "VACUUM ANALYZE relevo.jobs, relevo.attempts, relevo.permits, relevo.workers"
            )
        self.examples += 1

    def advance(self, hours: int, rings: Iterator[Ring]) -> None:
        """Let time go on, for what is written and for what workers remember of it."""
        self.owner.execute("SELECT model.advance(%s)", [hours])
        by = timedelta(hours=hours)
        for ring in rings:
            for key, (at, job_id) in ring._floors.items():
                ring._floors[key] = (at - by, job_id)
            if ring._clock.year > 1:
                ring._clock -= by

    def jobs(self, hour: int) -> dict[int, ModelJob]:
        """Read every job, its times in hours of the model."""
        with self.owner.cursor(row_factory=class_row(ModelJob)) as cursor:
            found = {job.id: job for job in cursor.execute(READ_JOBS)}
        for job in found.values():
            job.due += hour
            for name in ("key_expires", "finished", "started", "prune"):
                at = getattr(job, name)
                if at is not None:
                    setattr(job, name, at + hour)
        return found

    def attempts(self) -> dict[tuple[int, int], Trace]:
        """Read every attempt that was kept."""
        rows = self.owner.execute(READ_ATTEMPTS).fetchall()
        return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}

    def sessions(self) -> set[int]:
        """Read which sessions have a row."""
        return {row[0] for row in self.owner.execute(READ_SESSIONS)}


@contextmanager
def a_world(dsn: str) -> Iterator[World]:
    """Open a world in a migrated database of its own.

    Args:
        dsn: The address of its owner, a superuser.
    """
    with psycopg.connect(dsn, autocommit=True) as owner:
        owner.execute((Path(__file__).parent / "clock.sql").read_bytes())
        owner.execute(HOUR_OF)
        for number, tenant in enumerate(TENANTS):
            owner.execute(
                "INSERT INTO relevo.tenants VALUES (%s, %s, 'model')", [tenant, f"m{number}"]
            )

        def opened(role: str, *, autocommit: bool = False) -> psycopg.Connection:
            # One plan each: planning takes longer than all the rest.
            options = f"-c role={role} -c plan_cache_mode=force_generic_plan"
            return psycopg.connect(
                make_conninfo(dsn, options=options), autocommit=autocommit, prepare_threshold=0
            )

        web, late = opened("relevo_web"), opened("relevo_web")
        workers = tuple(opened("relevo_worker", autocommit=True) for _ in range(3))
        world = World(dsn, owner, web, late, workers)
        # Its monotonic() is all that is used of it.
        real = vars(claims)["time"]
        vars(claims)["time"] = world.clock
        try:
            yield world
        finally:
            vars(claims)["time"] = real
            for connection in (web, late, *workers):
                connection.close()
