"""What the workers of a campaign can run: the mixed kinds, and some that take a moment.

Those are where a fault finds a worker with something in its hands.
"""

import asyncio
from datetime import timedelta
from random import Random

from faults.evidence import Witness, record_effect
from faults.mixed_jobs import Mixed, mixed_app, witnessed
from relevo import Context

MOMENT = 0.03
HANGS = 120.0

SHARES = {
    "mixed.inside": 30,
    "mixed.function": 12,
    "mixed.outside": 16,
    "mixed.retry": 3,
    "mixed.raises": 3,
    "mixed.snooze": 3,
    "mixed.fail": 3,
    "mixed.cancel": 4,
    "mixed.limited": 2,
    "mixed.timed": 1,
    "mixed.ordered": 3,
    "load.held": 10,
    "load.late": 10,
}
"""How often each kind is enqueued, beside the others."""


def load_app(witness: Witness) -> Mixed:
    """Answer an application whose handlers report to the witness."""
    mixed = mixed_app(witness)
    app = mixed.app

    @app.job("load.held")
    async def held(ctx: Context, ref: str) -> None:
        # Its transaction is open, and its effect written, for a moment before it ends.
        with witnessed(witness, ctx):
            async with ctx.transaction() as connection:
                await record_effect(connection, ctx, "done")
                await asyncio.sleep(MOMENT)

    @app.job("load.late")
    async def late(ctx: Context, ref: str) -> str:
        with witnessed(witness, ctx):
            await asyncio.sleep(MOMENT)
            witness.note("delivered", job_id=ctx.job_id, key=ctx.idempotency_key)
            return ref

    @app.job("load.hang", timeout=timedelta(seconds=HANGS * 2))
    async def hang(ctx: Context, ref: str) -> None:
        # Only a lost worker lets it go on.
        with witnessed(witness, ctx):
            if ctx.attempt == 1:
                await asyncio.sleep(HANGS)

    more = {job.kind.name: job for job in (held, late, hang)}
    return Mixed(app, {**mixed.kinds, **more})


def some_kinds(random: Random, number: int) -> list[str]:
    """Draw kinds by their shares."""
    return random.choices(list(SHARES), list(SHARES.values()), k=number)
