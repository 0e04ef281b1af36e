"""The pruner's round: batch after batch, the archive's months with it, and then a rest."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

import pooler
from archiving import archive_on, months, overdue_jobs
from factories import a_job, value
from relevo.db.connect import EngineConnection
from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE, with_session
from relevo.engine.archive import Setting, make_months, switch_archive
from relevo.engine.jobs.prune import BATCH
from relevo.loops import pruner as pruning
from relevo.loops.pruner import Pruner
from relevo.loops.supervise import Pulse
from workers import BOUND

pytestmark = pytest.mark.core

# Counts what each transaction deletes; dropped with the test's database.
COUNTING = """
CREATE TABLE public.deletions (transaction bigint, rows bigint);
GRANT INSERT ON public.deletions TO relevo_worker;
CREATE FUNCTION public.count_deletions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.deletions SELECT txid_current(), count(*) FROM gone;
    RETURN NULL;
END $$;
CREATE TRIGGER counted AFTER DELETE ON relevo.jobs REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION public.count_deletions();
"""


@asynccontextmanager
async def pruner_of(dsn: str) -> AsyncIterator[Pruner]:
    """A pruner that runs while the block does."""
    engine = with_session(pooler.worker_dsn(dsn), role=WORKER_ROLE, settings=ENGINE_SETTINGS)
    connection = EngineConnection(engine)
    pruner = Pruner(connection)
    task = asyncio.create_task(pruner.run(Pulse("prune", limit=30.0)))
    try:
        yield pruner
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()
    assert task.cancelled(), task.exception()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110 -- the database is looked at, it signals nothing
            await asyncio.sleep(0.02)


async def test_it_goes_on_batch_by_batch_until_nothing_is_due(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        owner.execute(COUNTING.encode())
        archive_on(owner)
        stays = a_job(owner, state="completed")
        overdue_jobs(owner, 2 * BATCH + 7, at="2020-05-05 00:00+00")

        async with pruner_of(database) as pruner:
            await until(lambda: pruner.pruned == 2 * BATCH + 7)

        transactions = owner.execute(
            "SELECT sum(rows)::bigint FROM public.deletions GROUP BY transaction ORDER BY 1 DESC"
        ).fetchall()
        assert [rows for (rows,) in transactions if rows] == [BATCH, BATCH, 7]
        assert value(owner, "SELECT count(*) FROM relevo.archive_2020_05") == 2 * BATCH + 7
        assert value(owner, "SELECT id FROM relevo.jobs") == stays


async def test_months_whose_time_is_over_go_one_after_the_other(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        archive_on(owner)
        for month in (3, 4, 5):
            overdue_jobs(owner, 1, at=f"2020-{month:02d}-05 00:00+00")
        run(owner, make_months())
        run(owner, switch_archive(Setting(archiving=False, months=12)))
        assert len(months(owner)) == 5

        async with pruner_of(database):
            await until(lambda: len(months(owner)) == 2)


async def test_between_its_rounds_it_rests(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Red when an empty batch is followed by another at once: an idle server would be busy."""
    rests: list[float] = []

    async def rest(seconds: float, _pulse: Pulse) -> None:
        rests.append(seconds)
        await asyncio.sleep(0 if len(rests) < 3 else BOUND)

    monkeypatch.setattr(Pruner, "_wait", staticmethod(rest))
    with psycopg.connect(database, autocommit=True) as owner:
        overdue_jobs(owner, BATCH + 1)

    async with pruner_of(database):
        await until(lambda: len(rests) == 3)

    assert rests[0] == pruning.REST
    assert all(pruning.EVERY / 2 <= each <= pruning.EVERY * 1.5 for each in rests[1:])
