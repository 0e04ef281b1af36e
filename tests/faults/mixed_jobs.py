"""Kinds of job with every outcome, whose handlers say what they do to a witness.

Run as a script it serves them from a process of its own, to be killed:
`python -m faults.mixed_jobs DSN NAME WITNESS`.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from faults.evidence import Witness, record_effect
from relevo import (
    Backoff,
    Cancel,
    Context,
    Fail,
    JobKind,
    Limit,
    Relevo,
    Retry,
    Snooze,
    WorkerSettings,
)

AT_ONCE = timedelta(0)
SOON = Backoff(base=timedelta(milliseconds=10), cap=timedelta(milliseconds=20))
HANGS = 60.0


@contextmanager
def witnessed(witness: Witness, ctx: Context) -> Iterator[None]:
    """Note when a handler starts, and when its work is done and it is about to answer."""
    about = {"job_id": ctx.job_id, "tenant_id": ctx.tenant_id, "attempt": ctx.attempt}
    witness.note("start", **about, kind=ctx.kind, session=ctx._hold.worker)
    yield
    witness.note("end", **about)


@dataclass(frozen=True)
class Mixed:
    """An application, and its kinds by name."""

    app: Relevo
    kinds: Mapping[str, JobKind[..., Any]]


def mixed_app(witness: Witness) -> Mixed:  # noqa: C901 -- one short handler for each outcome
    """Answer an application whose handlers report to the witness."""
    app = Relevo()

    @app.job("mixed.inside")
    async def inside(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            async with ctx.transaction() as connection:
                await record_effect(connection, ctx, "done")

    @app.job("mixed.function")
    def function(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx), ctx.transaction() as connection:
            record_effect(connection, ctx, "done")

    @app.job("mixed.outside")
    async def outside(ctx: Context, ref: str) -> str:
        with witnessed(witness, ctx):
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)
            return ref

    @app.job("mixed.retry", retry=SOON)
    async def retry(ctx: Context, ref: str) -> Retry | None:
        with witnessed(witness, ctx):
            return Retry(AT_ONCE) if ctx.attempt < 3 else None

    @app.job("mixed.raises", retry=SOON, max_attempts=2)
    def raises(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            raise ZeroDivisionError(ref)

    @app.job("mixed.snooze")
    async def snooze(ctx: Context, ref: str) -> Snooze | None:
        with witnessed(witness, ctx):
            return Snooze(timedelta(milliseconds=20)) if ctx.attempt == 1 else None

    @app.job("mixed.fail")
    async def fail(ctx: Context, ref: str) -> Fail | None:
        with witnessed(witness, ctx):
            return Fail("not yet") if ctx.attempt == 1 else None

    @app.job("mixed.cancel")
    async def cancel(ctx: Context, ref: str) -> Cancel:
        with witnessed(witness, ctx):
            return Cancel("nobody wants it")

    @app.job("mixed.hang")
    async def hang(ctx: Context, ref: str) -> None:
        # It hangs inside the transaction: what it wrote is lost with its first starts.
        with witnessed(witness, ctx):
            async with ctx.transaction() as connection:
                await record_effect(connection, ctx, "done")
                if ctx.attempt < 3:
                    await asyncio.sleep(HANGS)

    @app.job("mixed.limited", limits=[Limit(2)])
    async def limited(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            await asyncio.sleep(0.005)

    @app.job("mixed.timed", limits=[Limit(3, within=timedelta(milliseconds=200))])
    async def timed(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            pass

    @app.job("mixed.ordered", ordered=True, retry=SOON)
    async def ordered(ctx: Context, ref: str) -> Retry | None:
        with witnessed(witness, ctx):
            return Retry(timedelta(milliseconds=5)) if ctx.attempt == 1 else None

    kinds = (inside, function, outside, retry, raises, snooze, fail, cancel, hang)
    held = (limited, timed, ordered)
    return Mixed(app, {job.kind.name: job for job in (*kinds, *held)})


def main() -> None:
    """Serve until killed."""
    dsn, name, path = sys.argv[1:]
    app = mixed_app(Witness(Path(path))).app
    lease = timedelta(seconds=1)
    worker = app.worker(WorkerSettings(dsn, name=name, lease=lease, concurrency=4, connections=4))
    worker.start()
    while not worker.wait(1.0):
        time.sleep(0)


if __name__ == "__main__":
    main()
