"""Kinds of job that scenarios enqueue."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Any

from faults.evidence import Witness, record_effect
from faults.mixed_jobs import witnessed
from relevo import Context, JobKind, Relevo, Retry


@dataclass(frozen=True)
class Kinds:
    """An application, its kinds by name, and whether one that cancels itself has begun."""

    app: Relevo
    kinds: Mapping[str, JobKind[..., Any]]
    has_begun: Event

    @property
    def names(self) -> list[str]:
        """What a worker says it can run."""
        return list(self.kinds)


def play_kinds(witness: Witness) -> Kinds:
    """Answer an application whose handlers report to the witness."""
    app, has_begun = Relevo(), Event()

    @app.job("play.work")
    def work(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx), ctx.transaction() as connection:
            record_effect(connection, ctx, "done")

    @app.job("play.twice", max_attempts=2)
    def twice(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            pass

    @app.job("play.ordered", ordered=True)
    def ordered(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            pass

    @app.job("play.mail")
    def mail(ctx: Context, ref: str) -> Retry | None:
        with witnessed(witness, ctx):
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)
            return Retry(timedelta(milliseconds=1)) if ctx.attempt == 1 else None

    @app.job("play.cancelling")
    async def cancelling(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            has_begun.set()
            raise asyncio.CancelledError

    kinds = (work, twice, ordered, mail, cancelling)
    return Kinds(app, {job.kind.name: job for job in kinds}, has_begun)
