"""A process of either version: it migrates, works or enqueues with the relevo that it finds.

`PYTHONPATH=SOURCES:TESTS python -m faults.campaigns.either WHAT …`; it uses only what both
versions have. A worker and an enqueuer end well at SIGTERM.
"""

import asyncio
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from faults.evidence import Witness, record_effect
from relevo import ENGINE, Context, JobKind, Line, Relevo, Retry, WorkerSettings, migrate

UNIT = 20
PACE = 0.2
"""Seconds between two units."""

HELD_FOR = 1.5
"""So long the transactions of a holder stay open, a second after each other."""

NEXT = Line("next", "faults.campaigns.next")
"""What this version has and the one before has not, besides its own."""


def main() -> None:
    """Do what the first word says."""
    what, dsn, *words = sys.argv[1:]
    if what == "migrate":
        migrate(dsn, [NEXT] if words else [ENGINE])
    elif what == "work":
        _work(dsn, *words)
    elif what == "enqueue":
        _enqueue(dsn, *words, rest=PACE)
    else:
        _enqueue(dsn, *words, rest=1.0, held_for=HELD_FOR)


@contextmanager
def _witnessed(witness: Witness, ctx: Context) -> Iterator[None]:
    about = {"job_id": ctx.job_id, "tenant_id": ctx.tenant_id, "attempt": ctx.attempt}
    witness.note("start", **about, kind=ctx.kind, session=ctx._hold.worker)
    yield
    witness.note("end", **about)


def kinds_of(app: Relevo, witness: Witness) -> Mapping[str, JobKind[..., Any]]:
    """Declare what both versions can run."""

    @app.job("upgrade.inside")
    async def inside(ctx: Context, ref: str) -> None:
        with _witnessed(witness, ctx):
            async with ctx.transaction() as connection:
                await record_effect(connection, ctx, "done")

    @app.job("upgrade.function")
    def function(ctx: Context, ref: str) -> None:
        with _witnessed(witness, ctx), ctx.transaction() as connection:
            record_effect(connection, ctx, "done")

    @app.job("upgrade.outside")
    async def outside(ctx: Context, ref: str) -> str:
        with _witnessed(witness, ctx):
            await asyncio.sleep(0.02)
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)
            return ref

    @app.job("upgrade.again")
    async def again(ctx: Context, ref: str) -> Retry | None:
        with _witnessed(witness, ctx):
            return Retry(timedelta(0)) if ctx.attempt == 1 else None

    return {job.kind.name: job for job in (inside, function, outside, again)}


def _work(dsn: str, name: str, witness: str) -> None:
    app = Relevo()
    kinds_of(app, Witness(Path(witness), is_synced=False))
    worker = app.worker(
        WorkerSettings(
            dsn,
            name=name,
            lease=timedelta(seconds=10),
            concurrency=4,
            connections=2,
            poll=timedelta(seconds=0.5),
            grace=timedelta(seconds=10),
        )
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.ask_to_stop())
    worker.run()


def _enqueue(dsn: str, name: str, path: str, *, rest: float = 0.0, held_for: float = 0.0) -> None:
    """Enqueue in units, each in a transaction that stays open for so long."""
    witness = Witness(Path(path), is_synced=False)
    kinds = kinds_of(Relevo(), witness)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with psycopg.connect(dsn, autocommit=True, application_name=f"enqueuer {name}") as connection:
        for number in count():
            _enqueue_unit(connection, kinds, witness, f"{name}-{number}", held_for)
            if stop.wait(rest):
                return


def _enqueue_unit(
    connection: psycopg.Connection,
    kinds: Mapping[str, JobKind[..., Any]],
    witness: Witness,
    unit: str,
    held_for: float,
) -> None:
    refs = {name: [f"{unit}-{name}-{n}" for n in range(UNIT // len(kinds))] for name in kinds}
    for name, some in refs.items():
        for ref in some:
            witness.note("intent", ref=ref, unit=unit, kind=name)
    found = {}
    with connection.transaction():
        for name, some in refs.items():
            answers = kinds[name].enqueue_many(connection, [{"ref": ref} for ref in some])
            found |= zip(some, answers, strict=True)
        # The database waits for it, as for any application's transaction.
        time.sleep(held_for)
    for ref, one in found.items():
        witness.note("enqueued", ref=ref, job_id=one.id, created=one.created)


if __name__ == "__main__":
    main()
