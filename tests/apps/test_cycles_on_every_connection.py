"""The whole life of a cycle, inside the transaction of each kind of connection."""

import asyncio

import asyncpg
import psycopg
import pytest
from cycle_factory import ACTOR, TENANT, as_role
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from relevo.db.drivers import run, run_async
from relevo_apps.evaluations import service
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import EvaluationState, Relation

PEOPLE = """id,name,email,manager,hire date
1,Ana Álvarez,ana@example.com,,2020-01-31
2,Bruno Díaz,bruno@example.com,1,
3,Célia Nóbrega,celia@example.com,1,2021-02-28
4,Dan Young,dan@example.com,2,
"""


def life_of_a_cycle():
    """One operation made of all of them; answers what must be the same everywhere."""
    report = yield from service.import_people(TENANT, read_people(PEOPLE.encode()))
    cycle = yield from service.create_cycle(TENANT, "2025", actor=ACTOR, rules=list(Relation))
    added = yield from service.add_participants(TENANT, cycle.id, ["1", "2", "x"], actor=ACTOR)
    yield from service.add_peers(TENANT, cycle.id, [("1", "4"), ("2", "z")], actor=ACTOR)
    yield from service.generate_evaluations(TENANT, cycle.id, actor=ACTOR)
    rehearsed = yield from service.preflight(TENANT, cycle.id, actor=ACTOR)
    yield from service.activate(TENANT, cycle.id, actor=ACTOR)
    recalled = yield from service.recall(TENANT, cycle.id, actor=ACTOR)
    done = yield from service.activate(TENANT, cycle.id, actor=ACTOR)
    status = yield from service.cycle_status(TENANT, cycle.id)
    people = yield from service.list_people(TENANT)
    return (
        (report.created, report.headcount.managers),
        (added.added, added.unknown),
        (rehearsed.evaluations, rehearsed.notifications, len(rehearsed.warnings)),
        (recalled.cancelled, done.revived, done.evaluators),
        (status.evaluations[EvaluationState.ACTIVE], status.notifications.pending),
        [person.full_name for person in people],
    )


EXPECTED = (
    (4, 2),
    (2, ("x",)),
    (7, 4, 1),
    (4, 4, 4),
    (7, 4),
    ["Ana Álvarez", "Bruno Díaz", "Célia Nóbrega", "Dan Young"],
)


def on_psycopg(dsn):
    with psycopg.connect(dsn) as connection:
        return run(connection, life_of_a_cycle())


def on_sqlalchemy(dsn):
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with Session(engine) as session:
        answer = run(session, life_of_a_cycle())
        session.commit()
    engine.dispose()
    return answer


async def on_psycopg_async(dsn):
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        return await run_async(connection, life_of_a_cycle())


async def on_asyncpg(dsn):
    connection = await asyncpg.connect(**arguments(dsn))
    async with connection.transaction():
        answer = await run_async(connection, life_of_a_cycle())
    await connection.close()
    return answer


async def on_sqlalchemy_async(dsn):
    async def connect(*_, **__):
        return await asyncpg.connect(**arguments(dsn))

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connect)
    async with AsyncSession(engine) as session:
        answer = await run_async(session, life_of_a_cycle())
        await session.commit()
    await engine.dispose()
    return answer


def arguments(dsn):
    """What asyncpg calls the same things."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    names = {"dbname": "database", "hostaddr": "host"}
    return {
        names.get(name, name): value
        for name, value in parts.items()
        if name in {"host", "hostaddr", "port", "user", "password", "dbname"}
    }


@pytest.mark.parametrize(
    "live", [on_psycopg, on_sqlalchemy, on_psycopg_async, on_asyncpg, on_sqlalchemy_async]
)
def test_a_cycle_lives_the_same_life_on_every_connection(database, live):
    answer = live(database)

    assert (asyncio.run(answer) if asyncio.iscoroutine(answer) else answer) == EXPECTED
    with as_role(database) as owner:
        assert owner.execute("SELECT count(*) FROM relevo.jobs WHERE live").fetchone() == (4,)
