"""A worker as the machine plays it: its session, its memory, and what it believes to hold."""

from dataclasses import dataclass, field
from typing import Final

import psycopg

from faults.model.world import KINDS, Monotonic
from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.model.job import ClaimedJob
from relevo.model.ring import Ring

SERVED: Final = (KINDS, ("plain", "laned"), ("kept", "brief", "paced", "ordered"))
"""Which kinds each worker knows."""

EMPTY: Final = 3
"""After so many claims in a row that found nothing, each a whole walk, nothing is left."""


Hold = tuple[int, ClaimedJob, str]
"""The session, the job as it was claimed, and its queue."""


@dataclass
class Slot:
    """One worker.

    Attributes:
        session: The id of its session, 0 before the first.
        rings: What it remembers of each queue.
        held: What it was given, with the session it had then; also what it has lost since.
    """

    connection: psycopg.Connection
    kinds: tuple[str, ...]
    session: int = 0
    rings: dict[str, Ring] = field(default_factory=dict)
    held: list[Hold] = field(default_factory=list)

    def claim(
        self, clock: Monotonic, queue: str, limit: int, *, is_fresh: bool
    ) -> list[ClaimedJob]:
        """Claim once, with or without its memory."""
        if is_fresh:
            self.rings[queue] = Ring()
        ring = self.rings.setdefault(queue, Ring())
        clock.now += 1.0
        found = run(self.connection, claim(self.session, queue, self.kinds, limit, ring))
        self.held += [(self.session, job, queue) for job in found]
        return found

    def is_empty(self, clock: Monotonic, queue: str) -> bool:
        """Say whether the next claim begins a walk of its own, all its rests being over."""
        clock.now += 100_000.0
        return not self.rings.setdefault(queue, Ring()).is_walking
