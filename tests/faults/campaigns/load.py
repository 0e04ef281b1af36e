"""Enqueue under references, many at once, and tell a witness what was answered and what not."""

from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import psycopg

from faults.campaigns.kinds import load_app, some_kinds
from faults.evidence import Witness
from relevo import DEFAULT_TENANT, Enqueued

PROGRAM = "enqueuer"
"""What its connection is called, for those who cut it."""

UNIT = 40
BACKLOG = "SELECT count(*) FROM relevo.jobs WHERE live"
CONNECT_TIMEOUT = 5


class Load:
    """One enqueuer: it keeps so many jobs waiting, and knows what it does not know.

    Args:
        dsn: The owner's address of the database.
        directory: Where its witness is kept.
        tenants: Whose jobs it enqueues.
        random: What decides about kinds, keys and tenants.
    """

    def __init__(self, dsn: str, directory: Path, tenants: list[UUID], random: Random) -> None:
        self._dsn, self._tenants, self._random = dsn, tenants, random
        self.witness = Witness(directory / "enqueuer.witness", is_synced=False)
        self._kinds = load_app(self.witness).kinds
        self._connection: psycopg.Connection | None = None
        self._refs = (f"r{number}" for number in count())
        self.enqueued = 0
        self.unknown = 0

    @property
    def connection(self) -> psycopg.Connection:
        """A connection that commits by itself; a new one where the last was lost."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._dsn,
                autocommit=True,
                application_name=PROGRAM,
                connect_timeout=CONNECT_TIMEOUT,
            )
        return self._connection

    def backlog(self) -> int | None:
        """How many jobs have not ended; None where the server does not say."""
        with suppress(psycopg.OperationalError):
            rows = self.connection.execute(BACKLOG).fetchall()
            return int(rows[0][0])
        self._drop()
        return None

    def finished(self) -> int:
        """How many of the jobs that were acknowledged have ended, at least."""
        backlog = self.backlog()
        return 0 if backlog is None else self.enqueued - backlog

    def top_up(self, backlog: int, most: int) -> None:
        """Enqueue until so many wait, or so many were enqueued in all."""
        waiting = self.backlog()
        while waiting is not None and waiting < backlog and self.enqueued < most:
            if not (added := self.enqueue(min(UNIT, most - self.enqueued))):
                return
            waiting += added

    def enqueue(self, number: int, kind: str | None = None) -> int:
        """Enqueue so many in one transaction; answer how many are known to be there."""
        kinds = some_kinds(self._random, number) if kind is None else [kind] * number
        refs = [next(self._refs) for _ in kinds]
        tenant = self._random.choice(self._tenants)
        for ref, name in zip(refs, kinds, strict=True):
            about = {"unit": refs[0], "kind": name, "tenant_id": tenant}
            self.witness.note("intent", ref=ref, **about, key=self._key(ref))
        is_rolled_back = kind is None and self._random.random() < 0.05
        try:
            found = self._send(tenant, refs, kinds, is_rolled_back=is_rolled_back)
        except psycopg.OperationalError:
            # Sent or not, written or not: only the database knows.
            self.witness.note("unknown", unit=refs[0])
            self._drop()
            self.unknown += number
            return 0
        if is_rolled_back:
            self.witness.note("rolled_back", unit=refs[0])
            return 0
        for ref, one in found.items():
            self.witness.note("enqueued", ref=ref, job_id=one.id, created=one.created)
        added = sum(one.created for one in found.values())
        self.enqueued += added
        return added

    def _send(
        self, tenant: UUID, refs: list[str], kinds: list[str], *, is_rolled_back: bool
    ) -> dict[str, Enqueued]:
        found: dict[str, Enqueued] = {}
        with self.connection.transaction():
            for kind in Counter(kinds):
                mine = [ref for ref, name in zip(refs, kinds, strict=True) if name == kind]
                lanes = [f"lane {ref[-2:]}" for ref in mine] if kind == "mixed.ordered" else None
                answers = (
                    self._kinds[kind]
                    .with_options(tenant_id=tenant)
                    .enqueue_many(
                        self.connection,
                        [{"ref": ref} for ref in mine],
                        keys=[self._key(ref) for ref in mine],
                        lane_keys=lanes,
                    )
                )
                found |= zip(mine, answers, strict=True)
            if is_rolled_back:
                raise psycopg.Rollback
        return found

    @staticmethod
    def _key(ref: str) -> str | None:
        """Some jobs share a key with one that came shortly before."""
        return f"k{int(ref[1:]) // 2}" if ref.endswith(("8", "9")) else None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Disconnect; what was noted stays."""
        self._drop()
        self.witness.close()


ALL = [DEFAULT_TENANT]
