"""F-033: serialization errors on every busy claim, where the database's default is stricter.

Mechanism: the engine's sessions begin with READ COMMITTED, whatever the database's default
(ENGINE_SETTINGS and HANDLER_SETTINGS). Red without them: 40001 surfaces in claim and settle.
"""

import logging
import threading

import psycopg
import pytest
from psycopg import sql

from factories import value
from relevo import Context, Relevo
from workers import query, scaled, settings

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

WORKERS = scaled(3, 8)
JOBS = scaled(600, 16_000)


def test_f033_busy_workers_run_each_job_once_though_the_default_is_serializable(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[int] = []
    gate = threading.Lock()
    app = Relevo()

    @app.job("test.work")
    async def handler(ctx: Context) -> None:
        with gate:
            starts.append(ctx.job_id)

    @app.job("test.transaction")
    async def in_transaction(ctx: Context) -> None:
        with gate:
            starts.append(ctx.job_id)
        async with ctx.transaction() as connection:
            await connection.execute("SELECT count(*) FROM relevo.jobs WHERE attempt = 1")

    with psycopg.connect(database, autocommit=True) as owner:
        name = sql.Identifier(owner.info.dbname)
        owner.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_isolation = serializable").format(
                name
            )
        )
        with owner.transaction():
            handler.enqueue_many(owner, [{}] * JOBS)
            in_transaction.enqueue_many(owner, [{}] * (JOBS // 10))
        with caplog.at_level(logging.WARNING, "relevo"):
            workers = [
                app.worker(settings(database, drain=True, name=f"w{place}"))
                for place in range(WORKERS)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                assert worker.wait(120)
        most = value(owner, "SELECT max(attempt) FROM relevo.jobs")

    assert query(database, "SHOW default_transaction_isolation") == [("serializable",)]
    assert most == 1
    assert len(starts) == len(set(starts)) == JOBS + JOBS // 10
    assert not [record.getMessage() for record in caplog.records]
