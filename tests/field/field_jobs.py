"""What the workers of the field cases run: handlers that hang at their first start, or long."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

from relevo import Context, Relevo

app = Relevo()

MARK = "INSERT INTO public.effects (job_id, attempt, note, pid) VALUES (%s, %s, %s, %s)"


async def leave(ctx: Context, note: str) -> None:
    """Leave a mark of this start that stays whatever becomes of it."""
    async with ctx.connection() as connection:
        await connection.execute(MARK, [ctx.job_id, ctx.attempt, note, os.getpid()])


async def end(ctx: Context) -> None:
    """Leave a mark in the transaction that completes the job."""
    async with ctx.transaction() as connection:
        await connection.execute(MARK, [ctx.job_id, ctx.attempt, "done", os.getpid()])


@app.job("field.first_hangs", max_attempts=5)
async def first_hangs(ctx: Context, seconds: float, trace: str = "") -> None:
    """Hang at the first start only; write down outside the database that it was cancelled."""
    try:
        # Others see this mark before the handler has heard that it was written.
        await leave(ctx, "began")
        if ctx.attempt == 1:
            await asyncio.sleep(seconds)
            await leave(ctx, "woke")
    except asyncio.CancelledError:
        if trace:
            await asyncio.to_thread(Path(trace).write_text, str(os.getpid()))
        raise
    await end(ctx)


@app.job("field.hangs", max_attempts=5)
async def hangs(ctx: Context, seconds: float) -> None:
    """Hang at every start."""
    await leave(ctx, "began")
    await asyncio.sleep(seconds)


@app.job("field.brief", timeout=timedelta(seconds=1))
async def brief(ctx: Context) -> None:
    """End at once."""
    await leave(ctx, "began")
    await end(ctx)


@app.job("field.long", timeout=timedelta(seconds=60))
async def long(ctx: Context, seconds: float) -> None:
    """Await for long, under a time-out of its own."""
    await leave(ctx, "began")
    await asyncio.sleep(seconds)
    await end(ctx)


@app.job("field.block")
async def block(ctx: Context, seconds: float) -> None:
    """Hold the handlers' loop for long, without awaiting."""
    await leave(ctx, "began")
    time.sleep(seconds)  # noqa: ASYNC251 -- blocking the loop is what the case is about
    await end(ctx)
