"""Look at a soak from outside: memory, dead rows, backlog, and what claims cost.

Nothing here takes part in the flow but the probe, which claims one job of its own at a time
from the queue that the workers claim from, as one more worker would.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from measuring import Connection, as_worker

from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.session import open_session
from relevo.engine.jobs.settle import settle
from relevo.model.ring import Ring
from relevo.model.settlement import Action, Settlement

PROBE: Final = "soak.probe"
EVERY: Final = 0.25
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

# The names of statements are not kept. The claims, and nobody else, clear this key; under limits
# a walk of its own comes before them.
LOOK: Final = """
SELECT
    coalesce((SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'relevo.jobs'::regclass), 0),
    (SELECT count(*) FROM relevo.jobs AS j
     WHERE j.live AND j.worker IS NULL AND j.available_at <= now()),
    pg_total_relation_size('relevo.jobs'),
    coalesce(sum(s.rows) FILTER (WHERE s.query LIKE '%waiting_key = $%'), 0)::bigint,
    coalesce(sum(s.shared_blks_hit + s.shared_blks_read), 0)::bigint
FROM pg_stat_statements AS s
WHERE (s.query LIKE '%waiting_key = $%' OR s.query LIKE '%FROM walk%')
  AND s.query NOT LIKE '%pg_stat_statements%'
"""


@dataclass(frozen=True)
class Sample:
    """One look.

    Attributes:
        at: Seconds from the beginning.
        memory: MiB that each worker process has resident.
        dead: Dead rows of the jobs' table.
        due: Jobs that are due and wait.
        size: Bytes of the table and its indexes.
        claimed: Jobs claimed so far.
        buffers: Buffers that claims have touched so far.
    """

    at: float
    memory: tuple[float, ...]
    dead: int
    due: int
    size: int
    claimed: int
    buffers: int


def look(owner: Connection, at: float, processes: Sequence[int]) -> Sample:
    """Look once."""
    row = owner.execute(LOOK).fetchone()
    assert row is not None
    dead, due, size, claimed, buffers = (int(str(count)) for count in row)
    memory = tuple(resident(process) for process in processes)
    return Sample(at, memory, dead, due, size, claimed, buffers)


def resident(process: int) -> float:
    """Answer the MiB of a process that are resident."""
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE / 2**20


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Answer by how much the second coordinate grows with the first, by least squares."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Answer the value that so large a share of all is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass
class Probe:
    """Claims and completes one job of its own four times a second, and times the claim.

    Attributes:
        times: When each claim was made, and what it took, in seconds.
    """

    dsn: str
    tenant: UUID
    begun_at: float
    times: list[tuple[float, float]] = field(default_factory=list)

    def run(self, stop: threading.Event, lease: float) -> None:
        """Go on until told to stop."""
        with psycopg.connect(as_worker(self.dsn), autocommit=True) as connection:
            opened = open_session(
                "probe", queues=["default"], kinds=[PROBE], concurrency=8, version="0", lease=lease
            )
            worker, ring = run(connection, opened), Ring()
            while not stop.wait(EVERY):
                connection.execute(
                    "INSERT INTO relevo.jobs (tenant_id, kind) VALUES (%s, %s)",
                    [self.tenant, PROBE],
                )
                self._claim(connection, worker, ring)
            while self._claim(connection, worker, ring, sweeps=True):
                pass

    def _claim(
        self, connection: Connection, worker: int, ring: Ring, *, sweeps: bool = False
    ) -> int:
        if sweeps:
            ring.rest()
        begun = time.monotonic()
        found = run(connection, claim(worker, "default", [PROBE], 8, ring))
        self.times.append((begun - self.begun_at, time.monotonic() - begun))
        if found:
            done = [Settlement(j.tenant_id, j.id, j.attempt, Action.COMPLETED) for j in found]
            run(connection, settle(worker, {}, done))
        return len(found)

    def p95(self, since: float, until: float) -> float:
        """Answer the milliseconds that 95 in 100 claims of a time did not exceed."""
        return percentile([took for at, took in self.times if since <= at < until], 0.95) * 1000
