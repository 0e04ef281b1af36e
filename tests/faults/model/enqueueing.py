"""Enqueues of every sort, on the database and in the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
from hypothesis import strategies as st

from faults.model.jobs import ModelJob
from faults.model.oracle import Oracle
from faults.model.world import HOUR, KINDS, TENANTS
from relevo import Enqueued, JobKind, KeyMode, Options, Relevo, set_tenant
from relevo.db.drivers import run

EXPIRIES = (1, 1, 3, 24 * 40)
"""Hours that keys last: the longest of them longer than any row is kept otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One enqueue that somebody asks for."""

    kind: str
    tenant: UUID
    priority: int = 2
    delay: int = 0
    key: str | None = None
    mode: KeyMode = KeyMode.ALWAYS
    key_for: int | None = None
    lane_key: str | None = None
    aggregate: str | None = None


@st.composite
def asked(draw: Any, *, is_keyed: bool = True) -> Asked:
    """Draw one; most of its values are the plain ones."""
    key = draw(st.sampled_from([None, None, "x", "y"])) if is_keyed else None
    mode = draw(st.sampled_from(list(KeyMode))) if key else KeyMode.ALWAYS
    kind = draw(st.sampled_from(KINDS))
    expires = key and mode is KeyMode.ALWAYS
    return Asked(
        kind,
        draw(st.sampled_from(TENANTS)),
        draw(st.integers(0, 3)),
        draw(st.sampled_from([0, 0, 1])) if is_keyed else 0,
        key,
        mode,
        draw(st.sampled_from([None, *EXPIRIES])) if expires else None,
        draw(st.sampled_from([None, "l", "k"])) if kind in ("plain", "laned", "ordered") else None,
        draw(st.sampled_from([None, "m", "m"])),
    )


def like(job: ModelJob, key_for: int | None) -> Asked:
    """Answer an enqueue for the key that a job has."""
    held = {
        KeyMode.WAITING: job.waiting_key,
        KeyMode.LIVE: job.live_key,
        KeyMode.ALWAYS: job.key,
    }
    mode = next(mode for mode, key in held.items() if key is not None)
    expires = mode is KeyMode.ALWAYS
    return Asked(
        job.kind, job.tenant, key=held[mode], mode=mode, key_for=key_for if expires else None
    )


class Enqueueing:
    """Who enqueues. Every transaction says first whose rows it is about."""

    def __init__(self, app: Relevo, oracle: Oracle) -> None:
        self._oracle = oracle
        self._rules = {kind.name: kind for kind in app.registry.kinds()}
        self._kinds: dict[str, JobKind[Any, Any]] = {}
        self._app = app
        self._refs = 0

    def _kind(self, what: Asked) -> JobKind[Any, Any]:
        return JobKind(
            self._app,
            self._rules[what.kind],
            Options(
                tenant_id=what.tenant,
                priority=what.priority,
                delay=what.delay * HOUR,
                key=what.key,
                key_mode=what.mode,
                key_for=None if what.key_for is None else what.key_for * HOUR,
                lane_key=what.lane_key,
                aggregate_id=what.aggregate,
            ),
        )

    def _new_ref(self) -> int:
        self._refs += 1
        return self._refs

    def _ask(self, connection: psycopg.Connection, what: Asked) -> tuple[int, Enqueued]:
        ref = self._new_ref()
        run(connection, set_tenant(what.tenant))
        return ref, self._kind(what).enqueue(connection, ref=ref)

    def _take(self, what: Asked, ref: int, got: Enqueued) -> None:
        holder = None
        if what.key is not None:
            holder = self._oracle.holder(what.tenant, what.kind, what.key, what.mode)
        if holder is not None:
            assert got == Enqueued(holder.id, created=False), f"{got}, held by {holder}"
            return
        assert got.created, f"{got}, nobody holds the key of {what}"
        assert got.id is not None
        assert got.id not in self._oracle.jobs, f"the id {got.id} is taken"
        self._oracle.jobs[got.id] = self._job(got.id, what, ref)

    def _job(self, job_id: int, what: Asked, ref: int) -> ModelJob:
        rules, hour = self._rules[what.kind], self._oracle.hour
        key = {mode: what.key if what.mode is mode else None for mode in KeyMode}
        job = ModelJob(
            job_id,
            what.tenant,
            rules.queue,
            what.kind,
            ref,
            what.priority,
            rules.max_attempts,
            hour + what.delay,
            what.aggregate,
            what.lane_key,
            key[KeyMode.WAITING],
            key[KeyMode.LIVE],
            key[KeyMode.ALWAYS],
            None if what.key_for is None else hour + what.key_for,
        )
        if what.lane_key is not None or rules.limits or rules.ordered:
            job.lane = job.own_lane
        return job

    def one(self, connection: psycopg.Connection, what: Asked, end: str) -> None:
        """One, in a transaction that ends so or so, or in a savepoint that does."""
        saved = self._save()
        with connection.transaction(force_rollback=end == "rollback"):
            if end in ("savepoint", "undone"):
                with connection.transaction(force_rollback=end == "undone"):
                    ref, got = self._ask(connection, what)
            else:
                ref, got = self._ask(connection, what)
        self._take(what, ref, got)
        if end in ("rollback", "undone"):
            self._oracle.jobs = saved

    def together(
        self, connection: psycopg.Connection, several: Sequence[Asked], *, is_kept: bool
    ) -> None:
        """Several in one transaction."""
        saved = self._save()
        with connection.transaction(force_rollback=not is_kept):
            for what in several:
                self._take(what, *self._ask(connection, what))
        if not is_kept:
            self._oracle.jobs = saved

    def many(self, connection: psycopg.Connection, what: Asked, keys: Sequence[str | None]) -> None:
        """Many in one statement, each with its own key or none."""
        refs = [self._new_ref() for _ in keys]
        payloads = [{"ref": ref} for ref in refs]
        kind = self._kind(replace(what, key=None, key_for=None))
        if what.key is not None:
            # The one that was drawn decides the sort of all keys.
            kind = kind.with_options(key_mode=what.mode)
            if what.key_for is not None:
                kind = kind.with_options(key_for=what.key_for * HOUR)
        with connection.transaction():
            run(connection, set_tenant(what.tenant))
            answers = kind.enqueue_many(connection, payloads, keys=keys)
        for_ = what.key_for if what.key is not None else None
        mode = what.mode if what.key is not None else KeyMode.ALWAYS
        # With several of one key the first place wins.
        for key, ref, got in zip(keys, refs, answers, strict=True):
            mine = replace(what, key=key, mode=mode, key_for=for_ if key is not None else None)
            self._take(mine, ref, got)

    def _save(self) -> dict[int, ModelJob]:
        return {job.id: replace(job) for job in self._oracle.jobs.values()}

    def ask_late(
        self, connection: psycopg.Connection, several: Sequence[Asked]
    ) -> list[tuple[Asked, int, Enqueued]]:
        """Ask in a transaction that stays open."""
        return [(what, *self._ask(connection, what)) for what in several]

    def take_late(self, late: Sequence[tuple[Asked, int, Enqueued]]) -> None:
        """Such a transaction has been committed: they are due since then."""
        for what, ref, got in late:
            self._take(what, ref, got)
