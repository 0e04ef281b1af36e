"""Kinds under limits, served by processes that tests kill: limited_jobs.py DSN NAME [option=n …].

A handler that holds waits for a row in public.go, so a test decides who runs and how long.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from relevo import (
    Backoff,
    Cancel,
    Context,
    Fail,
    Limit,
    Relevo,
    Retry,
    Snooze,
    WorkerSettings,
    cancel_jobs,
    perform,
)
from workers import BOUND, Child, query

app = Relevo()

SOON = Backoff(timedelta(milliseconds=50), 1, timedelta(milliseconds=50))
MOST, MOST_A_LANE = 10, 3
OUTCOMES = ("ok", "fail", "raise", "retry", "snooze", "time-out", "cancel", "withdraw", "delete")
"""What a job may do with itself; two more take the process along: crash and freeze."""

BEGAN = "INSERT INTO public.effects (job_id, attempt, note, pid) VALUES (%s, %s, %s, %s)"


async def _leave(ctx: Context, note: str) -> None:
    async with ctx.connection() as connection:
        await connection.execute(BEGAN, [ctx.job_id, ctx.attempt, note, os.getpid()])


async def _hold(ctx: Context, note: str) -> None:
    await _leave(ctx, note)
    while True:
        async with ctx.connection() as connection:
            found = await connection.execute("SELECT FROM public.go LIMIT 1")
            if found.rowcount:
                return
        await asyncio.sleep(0.02)


@app.job("limited.key", limits=[Limit(1, per="lane")], retry=SOON)
async def one_a_key(ctx: Context, key: str) -> None:
    """Run alone among those of the same key, until the test says go."""
    await _hold(ctx, key)


@app.job("limited.ten", limits=[Limit(MOST)], retry=SOON)
async def ten(ctx: Context) -> None:
    """Run beside nine others at most, until the test says go."""
    await _hold(ctx, "ten")


@app.job(
    "limited.any",
    limits=[Limit(MOST), Limit(MOST_A_LANE, per="lane")],
    retry=SOON,
    timeout=timedelta(seconds=1),
    max_attempts=50,
)
async def anything(ctx: Context, outcome: str) -> object:  # noqa: C901 -- one case an ending
    """End in the way that is asked for; what is no end comes first, and then success."""
    await asyncio.sleep(0.01)
    first = ctx.attempt == 1
    match outcome:
        case "fail":
            return Fail("asked for")
        case "raise" if first:
            raise RuntimeError(outcome)
        case "retry" if first:
            return Retry(in_=timedelta(milliseconds=20))
        case "snooze" if first:
            return Snooze(in_=timedelta(milliseconds=20))
        case "time-out" if first:
            await asyncio.sleep(5)
        case "cancel":
            return Cancel("asked for")
        case "withdraw":
            async with ctx.connection() as connection:
                await perform(connection, cancel_jobs(ctx.tenant_id, ctx.kind, ctx.aggregate_id))
            return Retry(in_=timedelta(0))
        case "delete":
            async with ctx.connection() as connection:
                await connection.execute("DELETE FROM relevo.jobs WHERE id = %s", [ctx.job_id])
        case "crash" if first:
            os.kill(os.getpid(), signal.SIGKILL)
        case "freeze" if first:
            await _leave(ctx, "frozen")
            # The whole process stands still until the test lets it go on, its lease lost.
            os.kill(os.getpid(), signal.SIGSTOP)
    return None


class LimitedChild(Child):
    """A process that serves the kinds above; what it says goes to a file, so it cannot block."""

    def __init__(self, dsn: str, name: str, **changes: float) -> None:
        self.name = name
        self._said: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115 -- closed by end()
        words = [f"{key}={value}" for key, value in changes.items()]
        command = [sys.executable, str(Path(__file__)), dsn, name, *words]
        self._process = subprocess.Popen(command, stderr=self._said, text=True)

    def end(self) -> str:
        """Kill it, also where it was frozen; answers what it said."""
        if self.is_alive:
            self._process.kill()
        self._process.wait(BOUND)
        if self._said.closed:
            return ""
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        return said


@contextmanager
def limited_children(dsn: str) -> Iterator[list[LimitedChild]]:
    """An empty list for children; all that a test puts there are gone at its end."""
    children: list[LimitedChild] = []
    try:
        yield children
    finally:
        for child in children:
            child.end()


def let_go(dsn: str) -> None:
    """Let those that hold come to their end."""
    query(dsn, "INSERT INTO public.go DEFAULT VALUES")


def hold_again(dsn: str) -> None:
    """Let those that start from now on hold."""
    query(dsn, "DELETE FROM public.go")


def make_tables(dsn: str) -> None:
    """What the handlers read and write."""
    query(
        dsn,
        "CREATE TABLE public.effects (id bigint GENERATED ALWAYS AS IDENTITY, job_id bigint,"
        " attempt integer, note text, pid integer, at timestamptz DEFAULT clock_timestamp())",
    )
    query(dsn, "CREATE TABLE public.go (at timestamptz DEFAULT clock_timestamp())")
    query(dsn, "GRANT ALL ON public.effects, public.go TO relevo_worker")


def main() -> None:
    dsn, name, *words = sys.argv[1:]
    changes: dict[str, Any] = {"lease": 1.0, "concurrency": 4, "connections": 8, "grace": 1.0}
    changes.update((word.split("=")[0], float(word.split("=")[1])) for word in words)
    for option in ("lease", "grace"):
        changes[option] = timedelta(seconds=changes[option])
    for option in ("concurrency", "connections"):
        changes[option] = int(changes[option])
    worker = app.worker(WorkerSettings(dsn, name=name, **changes))
    signal.signal(signal.SIGTERM, lambda _number, _frame: worker.ask_to_stop())
    worker.start()
    while not worker.wait(1.0):
        time.sleep(0)


if __name__ == "__main__":
    main()
