"""What the soak's workers do, and what must have become of each job in the end.

As a program it is one worker process: soak_jobs.py APPLICATION DSN NAME CONCURRENCY. The two
applications share a database and no queue: `flow` claims freely, `lanes` under limits.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from relevo import (
    Backoff,
    Context,
    Fail,
    JobKind,
    KeyMode,
    Limit,
    Relevo,
    Retention,
    WorkerSettings,
)

SOON: Final = Backoff(base=timedelta(milliseconds=200), factor=2, cap=timedelta(seconds=2))
BRIEF: Final = Retention(completed=timedelta(seconds=20))
LANES: Final = "lanes"

flow = Relevo("multi")
lanes = Relevo("multi")


@flow.job("soak.quick")
async def quick(ctx: Context, i: int) -> None:
    """Complete at once: most of a queue's work."""


@flow.job("soak.flaky", retry=SOON)
async def flaky(ctx: Context, i: int, failures: int) -> None:
    """Fail so often, then complete."""
    if ctx.attempt <= failures:
        msg = "the channel does not answer"
        raise ConnectionError(msg)


@flow.job("soak.doomed", retry=SOON, max_attempts=3)
async def doomed(ctx: Context, i: int) -> None:
    """Fail until no attempt is left."""
    msg = "it never will"
    raise ValueError(msg)


@flow.job("soak.refused")
async def refused(ctx: Context, i: int) -> Fail:
    """End as failed at the first start."""
    return Fail("nobody wants it")


@flow.job("soak.slow")
async def slow(ctx: Context, i: int, seconds: float) -> None:
    """Hold a slot for a while."""
    await asyncio.sleep(seconds)


@flow.job("soak.sync")
def sync(ctx: Context, i: int) -> str:
    """Complete on a thread, with a result."""
    return f"result {i}"


@flow.job("soak.keyed")
async def keyed(ctx: Context, i: int) -> None:
    """Complete; its key refuses a second one while it is live."""
    await asyncio.sleep(0.05)


@flow.job("soak.effect", retention=BRIEF)
async def effect(ctx: Context, i: int) -> None:
    """Write one row in the commit that completes the job; the job itself is soon pruned."""
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO public.effects (job_id) VALUES (%s)", [ctx.job_id])


@lanes.job("soak.ordered", queue=LANES, ordered=True)
async def ordered(ctx: Context, i: int) -> None:
    """Complete after those of the same lane that came before."""


@lanes.job("soak.limited", queue=LANES, limits=[Limit(5)])
async def limited(ctx: Context, i: int) -> None:
    """Hold one of five permits for a moment."""
    await asyncio.sleep(0.02)


@dataclass(frozen=True)
class Part:
    """A part of the flow.

    Attributes:
        kind: What is enqueued.
        share: Its share of all jobs; the shares of all parts are 1.
        state: Where each job ends.
        attempts: How many starts each has.
        arguments: Arguments of its handler beside the number.
        keys: From how many keys each job takes one, or lanes where the kind is ordered.
        is_pruned: Whether its rows go during the soak; its effects stay.
    """

    kind: JobKind[Any, Any]
    share: float
    state: str = "completed"
    attempts: int = 1
    arguments: Mapping[str, object] | None = None
    keys: int = 0
    is_pruned: bool = False

    @property
    def name(self) -> str:
        """The kind's name."""
        return self.kind.kind.name


PARTS: Final = (
    Part(quick, 0.55),
    Part(flaky, 0.08, attempts=3, arguments={"failures": 2}),
    Part(doomed, 0.02, state="failed", attempts=3),
    Part(refused, 0.02, state="failed"),
    Part(slow, 0.03, arguments={"seconds": 0.5}),
    Part(sync, 0.06),
    Part(keyed.with_options(key_mode=KeyMode.LIVE), 0.06, keys=50),
    Part(effect, 0.08, is_pruned=True),
    Part(ordered, 0.06, keys=20),
    Part(limited, 0.04),
)


def main() -> None:
    """Serve one application until asked to stop."""
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s")
    application, dsn, name, concurrency = sys.argv[1:]
    app, queue = (lanes, LANES) if application == LANES else (flow, "default")
    settings = WorkerSettings(
        dsn, queues=(queue,), name=name, concurrency=int(concurrency), grace=timedelta(seconds=10)
    )
    worker = app.worker(settings)
    signal.signal(signal.SIGTERM, lambda _number, _frame: worker.ask_to_stop())
    worker.start()
    while not worker.wait(1.0):
        pass


if __name__ == "__main__":
    main()
