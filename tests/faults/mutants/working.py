"""Scenarios about a worker's process: what it is told, what it loses, what its handlers do to it.

Nothing is drained in the end: a worker that lives on has to do it all by itself.
"""

import time
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from faults.crash.process import Process
from faults.mutants.stage import BOUND, QUEUE, Stage, refuse_broken
from relevo.db.drivers import run
from relevo.db.dsn import HANDLER_SETTINGS, WORKER_ROLE, with_session
from relevo.db.operation import Operation
from relevo.db.pools import HandlerPools
from relevo.engine.jobs.settle import settle
from relevo.loops.handlers import Handlers
from relevo.loops.settler import Answer
from relevo.loops.signals import Signal
from relevo.loops.supervise import Pulse

T = TypeVar("T")

SHORT = 1.0


class NeverEndsError(Exception):
    """Somebody waits for a word that does not come."""


class Unheard(Signal):
    """A signal that nobody sets: a wait with an end is over at once, another one never."""

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 -- as it is
        if timeout is None or timeout > BOUND:
            raise NeverEndsError
        return False


def untold_worker(stage: Stage) -> None:
    """A session that waits to be told is told nothing, and looks by itself."""
    process = stage.process()
    process.claimer._woken = Unheard(process._runner.get_loop())
    stage.enqueue()
    with suppress(NeverEndsError):
        process._await(process.claimer._idle(Pulse("claim", BOUND), was_busy=False))
        _work(process)


def lost_answer(stage: Stage) -> None:
    """The connection breaks between the commit of a claim and its answer."""
    process = stage.process()
    worker, connection = process.heartbeat.worker, process._connections["claim"]
    stage.enqueue()
    answer = connection.run

    async def lose(operation: Operation[T], **how: Any) -> T:
        await answer(operation, **how)
        raise psycopg.OperationalError

    connection.run = lose  # type: ignore[method-assign]
    with suppress(psycopg.OperationalError):
        process.claim()
    connection.run = answer  # type: ignore[method-assign]
    process._await(process.claimer._resolve_doubt(worker, at_once=True))
    _work(process)


def slow_heartbeat(stage: Stage) -> None:
    """The answer to a renewal comes when the lease that it renewed is over."""
    process, other = stage.process(), stage.session()
    heartbeat = process.heartbeat
    renew = heartbeat._renew
    # So that its connection is open when it counts.
    other.end_sessions()

    def renew_slowly(connection: psycopg.Connection) -> None:
        # Not before: the patience with the answer is a part of the lease.
        heartbeat._lease = SHORT
        renew(connection)
        # The time that passes is what this is about; nothing is waited for.
        connection.execute("SELECT pg_sleep(%s)", [SHORT * 1.2])

    heartbeat._renew = renew_slowly  # type: ignore[method-assign]
    process.beat()
    until = time.time() - time.monotonic() + heartbeat._proved_at + SHORT
    stage.witness.note("renewed", session=heartbeat.worker, until=round(until * 1_000_000))
    other.end_sessions()


def cancels_itself(stage: Stage) -> None:
    """A handler raises the cancellation of something that it had awaited."""
    session = stage.session()
    answers: list[Answer] = []
    dsn = with_session(
        stage.dsn, role=WORKER_ROLE, application_name="relevo handlers", settings=HANDLER_SETTINGS
    )
    registry = stage.kinds.app.registry
    handlers = Handlers(registry, HandlerPools(dsn, 1), 1, answers.append, lambda: None)
    stage.enqueue("play.cancelling")
    jobs = session.claim(start=False)
    handlers.start(session.id, QUEUE, jobs)
    assert stage.kinds.has_begun.wait(BOUND)
    # What the loop has not answered by its end it never would have.
    handlers.close(BOUND)
    decided = [refuse_broken(answer.settlement) for answer in answers]
    run(
        session.settling,
        settle(session.id, dict.fromkeys([job.id for job in jobs], QUEUE), decided),
    )
    stage.make_due()
    session.ring.rest()
    for job in session.claim():
        session.complete(job)


def _work(process: Process) -> None:
    process.forget()
    process.claim()
    process.work()
    process.settle()


SCENARIOS = (untold_worker, lost_answer, slow_heartbeat, cancels_itself)
