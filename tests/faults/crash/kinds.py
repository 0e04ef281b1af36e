"""Kinds of job for the enumeration: plain functions that end in every way, and say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from faults.evidence import Witness, record_effect
from faults.mixed_jobs import witnessed
from relevo import KEEP, Backoff, Cancel, Context, Fail, JobKind, Limit, Outage, Relevo, Retry

AT_ONCE = timedelta(0)
SOON = Backoff(base=timedelta(milliseconds=1), cap=timedelta(milliseconds=1))


@dataclass(frozen=True)
class Kinds:
    """An application, and its kinds by name."""

    app: Relevo
    kinds: Mapping[str, JobKind[..., Any]]


def crash_kinds(witness: Witness) -> Kinds:  # noqa: C901 -- one short handler for each outcome
    """Answer an application whose handlers report to the witness."""
    app = Relevo()

    @app.job("crash.inside", retry=SOON)
    def inside(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx), ctx.transaction() as connection:
            record_effect(connection, ctx, "done")

    @app.job("crash.outside")
    def outside(ctx: Context, ref: str) -> str:
        with witnessed(witness, ctx):
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)
            return ref

    @app.job("crash.retry", retry=SOON)
    def retry(ctx: Context, ref: str) -> Retry | None:
        with witnessed(witness, ctx):
            return Retry(AT_ONCE) if ctx.attempt == 1 else None

    @app.job("crash.raises", retry=SOON, max_attempts=2)
    def raises(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            raise ZeroDivisionError(ref)

    @app.job("crash.fail")
    def fail(ctx: Context, ref: str) -> Fail:
        with witnessed(witness, ctx):
            return Fail("never")

    @app.job("crash.cancel")
    def cancel(ctx: Context, ref: str) -> Cancel:
        with witnessed(witness, ctx):
            return Cancel("nobody wants it")

    @app.job("crash.outage", queue="paused")
    def outage(ctx: Context, ref: str) -> Outage | None:
        with witnessed(witness, ctx):
            return Outage("away", timedelta(seconds=1)) if ctx.attempt == 1 else None

    @app.job("crash.limited", limits=[Limit(2)])
    def limited(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            pass

    @app.job("crash.ordered", ordered=True)
    def ordered(ctx: Context, ref: str) -> None:
        with witnessed(witness, ctx):
            pass

    @app.job("cycle.dispatched", queue="mail", retention=KEEP)
    def told(ctx: Context, evaluator_id: str) -> None:
        with witnessed(witness, ctx):
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)

    kinds = (inside, outside, retry, raises, fail, cancel, outage, limited, ordered, told)
    return Kinds(app, {job.kind.name: job for job in kinds})
