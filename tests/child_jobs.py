"""What the workers in child processes can do: leave traces, hang, and die."""

import asyncio
import os
import signal
import time

from relevo import Context, Relevo

app = Relevo()

EFFECT = "INSERT INTO public.effects (job_id, attempt, note, pid) VALUES (%s, %s, %s, %s)"


async def _leave(ctx: Context, note: str) -> None:
    async with ctx.connection() as connection:
        await connection.execute(EFFECT, [ctx.job_id, ctx.attempt, note, os.getpid()])


@app.job("child.note")
async def note(ctx: Context, seconds: float = 0.0) -> None:
    """Leave one effect in the transaction that completes the job."""
    await asyncio.sleep(seconds)
    async with ctx.transaction() as connection:
        await connection.execute(EFFECT, [ctx.job_id, ctx.attempt, "once", os.getpid()])


@app.job("child.slow")
async def slow(ctx: Context, seconds: float) -> str:
    """Say that it began, wait, and answer."""
    await _leave(ctx, "began")
    await asyncio.sleep(seconds)
    await _leave(ctx, "ended")
    return "done"


@app.job("child.sync_slow")
def sync_slow(ctx: Context, seconds: float) -> str:
    """The same as a plain function."""
    with ctx.connection() as connection:
        connection.execute(EFFECT, [ctx.job_id, ctx.attempt, "began", os.getpid()])
    time.sleep(seconds)
    return "done"


@app.job("child.block")
async def block(ctx: Context, seconds: float) -> None:
    """Say that it began, then hold the handlers' loop without awaiting."""
    await _leave(ctx, "began")
    time.sleep(seconds)  # noqa: ASYNC251 -- blocking the loop is what the test is about


@app.job("child.kill", max_attempts=5)
async def kill(ctx: Context) -> None:
    """Take the whole process down, as the kernel does when memory ends."""
    await _leave(ctx, "killed")
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("child.stale")
async def stale(ctx: Context, seconds: float) -> None:
    """Write inside the completing transaction, then wait before it commits."""
    await _leave(ctx, "began")
    async with ctx.transaction() as connection:
        await connection.execute(EFFECT, [ctx.job_id, ctx.attempt, "business", os.getpid()])
        if ctx.attempt == 1:
            await asyncio.sleep(seconds)
