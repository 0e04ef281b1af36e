"""Die between claim and start, so many times: dying_worker.py DSN TIMES.

Each death is a process of its own, forked before anything was started. It claims one job, and
the kernel ends it when the claim was committed and nothing was begun. Its rescuer is left out,
so that none of them takes back what another one left.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta

from field_jobs import app

from relevo import WorkerSettings
from relevo.loops.handlers import Handlers
from relevo.loops.rescuer import Rescuer
from relevo.loops.supervise import Pulse
from relevo.model.job import ClaimedJob


def die(_handlers: Handlers, _worker: int, _queue: str, jobs: Sequence[ClaimedJob]) -> None:
    """Stand where a worker starts what it has claimed."""
    if jobs:
        os.kill(os.getpid(), signal.SIGKILL)


async def rest(_rescuer: Rescuer, pulse: Pulse) -> None:
    """Stand where a worker looks for what others lost."""
    while True:
        pulse.beat()
        await asyncio.sleep(1)


def serve(dsn: str, number: int) -> None:
    """Claim one job, and die of it."""
    Handlers.start = die  # type: ignore[method-assign] -- the pause point of the case
    Rescuer.run = rest  # type: ignore[method-assign] -- the same
    app.worker(
        WorkerSettings(
            dsn, name=f"doomed{number}", concurrency=1, connections=1, lease=timedelta(seconds=2)
        )
    ).run()


def main() -> None:
    dsn, times = sys.argv[1], int(sys.argv[2])
    for number in range(times):
        if not (pid := os.fork()):
            serve(dsn, number)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            sys.exit(f"process {number} was to be killed and ended with status {status}")


if __name__ == "__main__":
    main()
