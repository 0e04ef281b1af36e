"""What every driver shares: the processes that the harness starts from it, and what they answer.

    python DRIVER install DSN      makes the peer's schema in an empty database
    python DRIVER produce DSN      adds jobs as told on stdin, a JSON line each
    python DRIVER work DSN BOARD   runs jobs until it is killed, or the harness ends

It runs in the peer's own environment: the standard library, and of relevo only the module that
times producers, which needs nothing else.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from board import Board

from relevo.bench.pace import Pace, add_in_bulk, add_singly, add_spaced

Ran = Callable[[int], None]
Ready = Callable[[], None]


class Peer:
    """One queue, as its documentation says that it is used.

    A driver fills these in and ends with ``serve(ItsClass)``.
    """

    package: ClassVar[str] = ""
    """Whose version is reported."""

    left: ClassVar[str] = ""
    """A query that counts the jobs that are not done for good."""

    settings: ClassVar[dict[str, Any]] = {}
    """What was set otherwise than by default; reported."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    async def install(self) -> None:
        """Make the schema in an empty database."""

    async def open(self) -> None:
        """Open what adds jobs."""

    async def close(self) -> None:
        """Close it."""

    async def enqueue(self, number: int) -> None:
        """Add one job, committed on return."""
        raise NotImplementedError

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Add a job for each number by the best call there is, committed on return."""
        raise NotImplementedError

    async def work(self, ran: Ran, ready: Ready) -> None:
        """Run jobs for ever; each says `ran` with its number and returns."""
        raise NotImplementedError


def serve(peer: Any) -> None:
    """Be the process that the arguments ask for."""
    verb, dsn = sys.argv[1:3]
    queue = peer(dsn)
    # Whatever a library prints must not be taken for an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    if verb == "install":
        asyncio.run(queue.install())
    elif verb == "work":
        board = Board(Path(sys.argv[3]))
        threading.Thread(target=_end_with_harness, daemon=True).start()
        asyncio.run(queue.work(board.ran, board.ready))
    else:
        about = {"left": peer.left, "settings": peer.settings, "version": version(peer.package)}
        asyncio.run(_produce(queue, about, lambda said: print(said, file=answers, flush=True)))


async def _produce(queue: Any, about: dict[str, Any], answer: Callable[[str], None]) -> None:
    await queue.open()
    answer(json.dumps(about))
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = json.loads(line)
        numbers = range(told["first"], told["first"] + told["count"])
        if told["verb"] == "spaced":
            returned = await add_spaced(queue, numbers, told["gap"])
            answer(json.dumps(list(returned.values())))
        elif told["verb"] == "bulk":
            pace = await add_in_bulk(queue, numbers, told["chunk"], told["limit"])
            answer(_said(pace))
        else:
            answer(_said(await add_singly(queue, numbers, told["limit"])))
    await queue.close()


def _said(pace: Pace) -> str:
    return json.dumps({"jobs": pace.jobs, "seconds": pace.seconds, "cpu": pace.cpu})


def _end_with_harness() -> None:
    """A worker must not outlive who measures it: its stdin ends with the harness."""
    sys.stdin.read()
    os._exit(1)
