"""A handler that is told to end may clean up, whoever else has a reason to end it."""

import asyncio

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
