"""A handler that is told to end may clean up, whoever else has a reason to end it."""

import asyncio
import threading

import psycopg

from factories import a_worker, claim_some
from relevo import Context, Relevo
from relevo.db.pools import HandlerPools
from relevo.loops.handlers import Handlers
from relevo.loops.settler import Answer
from workers import wait_until


def test_what_a_handler_does_when_it_is_cancelled_is_not_cancelled(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when everybody who has a reason cancels: the second would end the cleaning up.

    A worker that wakes from a freeze distrusts its lease, and hears that its session has ended,
    within one moment.
    """
    app, said, answers = Relevo(), list[str](), list[Answer]()

    @app.job("test.cleans")
    async def cleans(ctx: Context) -> None:
        said.append("began")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            said.append("told")
            await asyncio.sleep(0.2)
            said.append("cleaned")
            raise

    cleans.enqueue(owner)
    worker = a_worker(owner, kinds=("test.cleans",))
    handlers = Handlers(app.registry, HandlerPools(database, 1), 1, answers.append, lambda: None)
    try:
        handlers.start(worker, "default", claim_some(owner, worker, kinds=("test.cleans",)))
        wait_until(lambda: "began" in said)
        handlers.hand_back("the lease could not be proved")
        wait_until(lambda: "told" in said)
        handlers.hand_back("the session has ended", worker)
        wait_until(lambda: not handlers.running)
    finally:
        handlers.close()

    assert said == ["began", "told", "cleaned"]
    assert [answer.settlement.error for answer in answers] == ["the lease could not be proved"]


def test_a_job_handed_back_before_its_handler_began_leaves_no_slot_taken(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a coroutine is cancelled before its first step: nothing of it runs then."""
    app, answers = Relevo(), list[Answer]()
    is_blocked, go_on = threading.Event(), threading.Event()

    @app.job("test.blocks")
    async def blocks(ctx: Context) -> None:
        is_blocked.set()
        go_on.wait(30)

    worker = a_worker(owner, kinds=("test.blocks",))
    handlers = Handlers(app.registry, HandlerPools(database, 1), 2, answers.append, lambda: None)
    try:
        for _ in range(2):
            blocks.enqueue(owner)
            handlers.start(worker, "default", claim_some(owner, worker, kinds=("test.blocks",)))
            assert is_blocked.wait(30)
        handlers.hand_back("the lease could not be proved")
        go_on.set()
        wait_until(lambda: not handlers.running)
    finally:
        go_on.set()
        handlers.close()

    assert [answer.settlement.error for answer in answers] == ["the lease could not be proved"] * 2
