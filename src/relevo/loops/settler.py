"""Write what became of jobs: many answers in one statement, each fenced by its attempt.

The settler never runs a handler. A batch that the server refuses is written row by
row; a connection that breaks is tried again with the same fences, so an answer is
never lost while its lease lives.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import psycopg

from relevo.db.connect import EngineConnection, is_transient
from relevo.engine.jobs.settle import settle
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse
from relevo.loops.waits import Waits
from relevo.model.settlement import Action, Settlement

_LOG: Final = logging.getLogger("relevo.worker")

BATCH: Final = 500
GATHER: Final = 0.002
RETRY_AFTER: Final = 0.2
RETRY_AT_MOST: Final = 2.0

LOCK_TIMEOUT: Final = 0.3
"""The server ends a settle that waits so many seconds for a row that somebody has locked."""

LOCKED_AGAIN: Final = 2.0
"""After so many seconds rows that were locked are tried again; others are written meanwhile."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is to be written for one job, and by which session."""

    worker: int
    queue: str
    settlement: Settlement


class Settler:
    """Collects answers from any thread and writes them in batches."""

    def __init__(
        self, connection: EngineConnection, signal: Signal, settled: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._signal = signal
        self._settled = settled
        self._waiting: deque[Answer] = deque()
        self._writing: list[Answer] = []
        self._locked: list[Answer] = []
        self._locked_at = 0.0
        self._is_repeated = False
        self._waits = Waits(RETRY_AFTER, RETRY_AT_MOST)
        self.count: int = 0

    def put(self, answer: Answer) -> None:
        """Accept an answer from any thread."""
        self._waiting.append(answer)
        self._signal.set()

    @property
    def backlog(self) -> int:
        """How many answers are not written yet."""
        return len(self._waiting) + len(self._writing) + len(self._locked)

    def job_ids(self) -> Iterable[int]:
        """Answer the jobs whose answers are not written yet."""
        answers = (*self._waiting, *self._writing, *self._locked)
        return [answer.settlement.job_id for answer in answers]

    async def run(self, pulse: Pulse) -> None:
        """Write batches for ever."""
        while True:
            pulse.beat()
            # Not only what waits: a batch that could not be written yet is still to be written.
            self._take_locked()
            if not self._waiting and not self._writing:
                await self._signal.wait(timeout=1.0)
                continue
            if len(self._waiting) < BATCH // 10:
                await asyncio.sleep(GATHER)
            await self._write_next()

    async def flush(self) -> None:
        """Write everything that waits, while the server can be reached."""
        while self.backlog:
            self._take_locked()
            if self._waiting or self._writing:
                await self._write_next()
            else:
                await asyncio.sleep(RETRY_AFTER)

    def _take_locked(self) -> None:
        if self._locked and time.monotonic() - self._locked_at > LOCKED_AGAIN:
            self._waiting.extend(self._locked)
            self._locked = []

    async def _write_next(self) -> None:
        if not self._writing:
            worker = self._waiting[0].worker
            while self._waiting and len(self._writing) < BATCH:
                if self._waiting[0].worker != worker:
                    break
                self._writing.append(self._waiting.popleft())
        try:
            await self._write(self._writing)
        except psycopg.Error as error:
            is_locked = isinstance(error, psycopg.errors.LockNotAvailable)
            if is_transient(error) and not is_locked:
                await self._wait_after(error)
                return
            if not is_locked:
                _LOG.warning(
                    "a batch of answers was refused, writing it row by row: %s", _one_line(error)
                )
            await self._write_singly()
        self._writing = []
        self._settled()

    async def _write_singly(self) -> None:
        while self._writing:
            answer = self._writing[0]
            try:
                await self._write([answer])
            except psycopg.errors.LockNotAvailable:
                self._keep_locked(answer)
            except psycopg.Error as error:
                if is_transient(error):
                    await self._wait_after(error)
                    continue
                await self._write_plainly(_unwritable(answer, error))
            self._writing.pop(0)

    def _keep_locked(self, answer: Answer) -> None:
        """Let the others pass: whoever holds the row may hold it for long."""
        _LOG.warning(
            "job %s is locked by another transaction, its answer waits", answer.settlement.job_id
        )
        self._locked.append(answer)
        self._locked_at = time.monotonic()

    async def _write_plainly(self, answer: Answer) -> None:
        try:
            await self._write([answer])
        except psycopg.Error as error:
            if is_transient(error):
                raise
            # Something of the application's refuses the row; the answers behind it must not wait.
            _LOG.error(
                "job %s cannot be ended, its row refuses it: %s",
                answer.settlement.job_id,
                _one_line(error),
            )

    async def _wait_after(self, error: psycopg.Error) -> None:
        # Whether the server wrote the batch is unknown; the fences make a second try harmless.
        _LOG.warning("answers could not be written yet: %s", _one_line(error))
        # A server that is away is asked less and less often, and not by all workers at once.
        await asyncio.sleep(self._waits.next())

    async def _write(self, answers: list[Answer]) -> None:
        queue_of = {answer.settlement.job_id: answer.queue for answer in answers}
        batch = [answer.settlement for answer in answers]
        try:
            settled = await self._connection.run(settle(answers[0].worker, queue_of, batch))
        except BaseException:
            # Cut or cancelled on the way: some of it may be written, and is then no loss.
            self._is_repeated = True
            raise
        self._waits.begin_anew()
        self.count += len(settled)
        level = logging.DEBUG if self._is_repeated else logging.WARNING
        self._is_repeated = False
        if len(settled) == len(batch):
            return
        for entry in batch:
            if (entry.tenant_id, entry.job_id) not in settled:
                _LOG.log(
                    level,
                    "lease lost: start %s of job %s is not ours any more, its answer was dropped",
                    entry.attempt,
                    entry.job_id,
                    extra={"tenant_id": str(entry.tenant_id), "job_id": entry.job_id},
                )


def _unwritable(answer: Answer, error: psycopg.Error) -> Answer:
    """Answer the same end without the values that the server refused."""
    entry = answer.settlement
    why = f"the answer could not be stored: {_one_line(error)}"
    plain = replace(entry, result=None, error=why, trace=None, pause=None)
    if entry.action is not Action.COMPLETED:
        plain = replace(plain, delay=min(entry.delay, timedelta(days=365)))
    return replace(answer, settlement=plain)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
