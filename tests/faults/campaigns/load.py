"""Enqueue under references, many at once, and tell a witness what was answered and what not."""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

import psycopg

from faults.campaigns.kinds import load_app, some_kinds
from faults.evidence import Witness
from relevo import Enqueued

PROGRAM = "enqueuer"
"""What its connection is called, for those who cut it."""

UNIT = 40
AGAIN_AFTER = 0.02
BACKLOG = "SELECT count(*) FROM relevo.jobs WHERE live"
CONNECT_TIMEOUT = 5


class Load:
    """One enqueuer: it keeps so many jobs waiting, and knows what it does not know.

    It has a thread and a connection of its own, so that faults meet it in the middle.

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
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.enqueued = 0
        self.unknown = 0
        self.failure: BaseException | None = None

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

    def start(self, backlog: int, most: int) -> None:
        """Begin to keep so many waiting, until so many were enqueued in all."""
        self._thread = threading.Thread(target=self._run, args=(backlog, most), name=PROGRAM)
        self._thread.start()

    def _run(self, backlog: int, most: int) -> None:
        try:
            while self.enqueued < most and not self._stop.is_set():
                self._top_up(backlog, most)
                self._stop.wait(AGAIN_AFTER)
        except BaseException as error:  # noqa: BLE001 -- told by whoever waits for it
            self.failure = error

    def _top_up(self, backlog: int, most: int) -> None:
        waiting = self._backlog()
        while waiting is not None and waiting < backlog and self.enqueued < most:
            if not (added := self.enqueue(min(UNIT, most - self.enqueued))):
                return
            waiting += added

    def _backlog(self) -> int | None:
        """How many jobs have not ended; None where the server does not say."""
        with suppress(psycopg.OperationalError):
            return int(self.connection.execute(BACKLOG).fetchall()[0][0])
        self._drop()
        return None

    @property
    def is_running(self) -> bool:
        """Whether it still enqueues."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Enqueue no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def enqueue(self, number: int, kind: str | None = None) -> int:
        """Enqueue so many in one transaction; answer how many are known to be there."""
        kinds = some_kinds(self._random, number) if kind is None else [kind] * number
        refs = [next(self._refs) for _ in kinds]
        tenant = self._random.choice(self._tenants)
        keys = {ref: _key(ref) for ref in refs} if kind is None else dict.fromkeys(refs)
        for ref, name in zip(refs, kinds, strict=True):
            about = {"unit": refs[0], "kind": name, "tenant_id": tenant}
            self.witness.note("intent", ref=ref, **about, key=keys[ref])
        is_rolled_back = kind is None and self._random.random() < 0.05
        try:
            found = self._send(tenant, keys, kinds, is_rolled_back=is_rolled_back)
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
        self,
        tenant: UUID,
        keys: Mapping[str, str | None],
        kinds: list[str],
        *,
        is_rolled_back: bool,
    ) -> dict[str, Enqueued]:
        found: dict[str, Enqueued] = {}
        # Where the server is gone at the roll-back, psycopg lets its mark through.
        with suppress(psycopg.Rollback), self.connection.transaction():
            for kind in Counter(kinds):
                mine = [ref for ref, name in zip(keys, kinds, strict=True) if name == kind]
                lanes = [f"lane {ref[-2:]}" for ref in mine] if kind == "mixed.ordered" else None
                answers = (
                    self._kinds[kind]
                    .with_options(tenant_id=tenant)
                    .enqueue_many(
                        self.connection,
                        [{"ref": ref} for ref in mine],
                        keys=[keys[ref] for ref in mine],
                        lane_keys=lanes,
                    )
                )
                found |= zip(mine, answers, strict=True)
            if is_rolled_back:
                raise psycopg.Rollback
        return found

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def close(self) -> None:
        """Stop and disconnect; what was noted stays."""
        self.stop()
        self._drop()
        self.witness.close()


def _key(ref: str) -> str | None:
    """Some jobs share a key with one that came just before."""
    return f"k{int(ref[1:]) // 2}" if ref.endswith(("8", "9")) else None
