"""F-028 and F-029: connections that leak, and connections that are refused.

Mechanisms: a connection is given back on every way out, and a broken one is replaced by the
pool; a worker has six connections of the engine's own and at most `connections` for each
sort of handler, whatever its concurrency; whoever is refused one (53300) waits and asks again.
"""

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from field_children import BUSY
from psycopg import sql
from psycopg.conninfo import make_conninfo

from factories import value
from relevo import Backoff, Context, Relevo
from relevo.db.pools import HandlerPools
from relevo.loops import worker as worker_module
from relevo.loops.settings import ENGINE_CONNECTIONS
from workers import make_effects, query, running, scaled, wait_until

BOUND = timedelta(seconds=5)
"""From the server's return to work, as it is promised for every outage."""

CUTS = scaled(60, 200)
CONNECTIONS = 3
SOON = Backoff(timedelta(milliseconds=10), cap=timedelta(milliseconds=10))
EFFECT = "INSERT INTO public.effects (job_id, attempt) VALUES (%s, %s)"
OURS = """
SELECT pid
FROM pg_stat_activity
WHERE datname = current_database()
  AND application_name ~ '^relevo (handlers|settle) '
  AND pid <> pg_backend_pid()
"""
EFFECTS = "SELECT count(*) FROM public.effects"
CUT = "SELECT pg_terminate_backend(%s)::int"
COUNT = """
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database()
  AND application_name LIKE 'relevo %'
"""
IN_TRANSACTION = """
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database()
  AND application_name LIKE 'relevo %'
  AND state LIKE 'idle in transaction%'
"""

app = Relevo()


@app.job("field.coroutine", retry=SOON, max_attempts=1000)
async def coroutine(ctx: Context) -> None:
    async with ctx.transaction() as connection:
        await connection.execute(EFFECT, [ctx.job_id, ctx.attempt])


@app.job("field.function", retry=SOON, max_attempts=1000)
def function(ctx: Context) -> None:
    with ctx.transaction() as connection:
        connection.execute(EFFECT, [ctx.job_id, ctx.attempt])


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[HandlerPools]:
    """The pools of the workers to come."""
    made: list[HandlerPools] = []

    class Known(HandlerPools):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(worker_module, "HandlerPools", Known)
    return made


def in_use(pools: HandlerPools) -> int:
    both = [pool for pool in (pools._sync, pools._async) if pool is not None]
    assert len(both) == 2
    stats = [pool.get_stats() for pool in both]
    return sum(each["pool_size"] - each["pool_available"] for each in stats)


def some_jobs(owner: psycopg.Connection, number: int) -> None:
    with owner.transaction():
        coroutine.enqueue_many(owner, [{}] * number)
        function.enqueue_many(owner, [{}] * number)


def test_f028_no_connection_is_lost_by_being_cut_while_jobs_complete(
    database: str, owner: psycopg.Connection, pools: list[HandlerPools]
) -> None:
    random = Random(28)  # noqa: S311 -- repeats a run, no secret
    cuts = most = effects = 0
    with running(app, database, connections=CONNECTIONS, concurrency=8):
        while cuts < CUTS:
            if value(owner, "SELECT count(*) FROM relevo.jobs WHERE live") < 20:
                some_jobs(owner, 20)
            # Between two cuts something is completed, so that each meets work.
            wait_until(lambda seen=effects: value(owner, EFFECTS) > seen, 60)
            effects = value(owner, EFFECTS)
            if found := [pid for (pid,) in owner.execute(OURS)]:
                cuts += value(owner, CUT, random.choice(found))
            most = max(most, value(owner, COUNT))
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.jobs WHERE live") == 0, 60)

        wait_until(lambda: in_use(pools[0]) == 0, 60, "connections that were not given back")
        wait_until(lambda: value(owner, IN_TRANSACTION) == 0, 60, "transactions left open")
        wait_until(
            lambda: value(owner, COUNT) <= ENGINE_CONNECTIONS + 2 * CONNECTIONS,
            60,
            "fewer backends",
        )

    # One that was cut may be listed for a moment beside the one that replaces it.
    assert most <= ENGINE_CONNECTIONS + 2 * CONNECTIONS + 2
    assert query(database, "SELECT count(*), count(DISTINCT job_id) FROM public.effects") == query(
        database, "SELECT count(*), count(*) FROM relevo.jobs"
    )


@pytest.mark.parametrize("concurrency", [1, 200])
def test_f029_whatever_its_concurrency_a_worker_opens_no_more_than_it_documents(
    database: str, owner: psycopg.Connection, concurrency: int
) -> None:
    """Red when a slot, or a thread, has a connection of its own."""
    most = 0
    some_jobs(owner, 400)

    def is_over() -> bool:
        nonlocal most
        most = max(most, value(owner, COUNT))
        return bool(value(owner, "SELECT count(*) FROM relevo.jobs WHERE live") == 0)

    with running(app, database, connections=CONNECTIONS, concurrency=concurrency):
        wait_until(is_over, 60)

    assert ENGINE_CONNECTIONS < most <= ENGINE_CONNECTIONS + 2 * CONNECTIONS


@pytest.fixture
def limited(database: str, owner: psycopg.Connection) -> Iterator[tuple[str, Any]]:
    """A login that may have so many connections, and how to say how many."""
    role = sql.Identifier(f"field_{owner.info.dbname}")
    name = role.as_string(owner).strip('"')
    owner.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE relevo_worker").format(role))

    def allow(number: int) -> None:
        alter = sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}")
        owner.execute(alter.format(role, sql.Literal(number)))

    yield make_conninfo(database, user=name), allow
    owner.execute(sql.SQL("DROP ROLE {}").format(role))


def test_f029_who_is_refused_a_connection_waits_and_charges_no_job(
    database: str,
    owner: psycopg.Connection,
    limited: tuple[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Red when 53300 ends a loop, or a handler does not wait for its connection."""
    dsn, allow = limited
    allow(0)
    some_jobs(owner, 10)
    with running(app, dsn, connections=CONNECTIONS):
        wait_until(lambda: "heartbeat waits for the database" in caplog.text, 60)
        wait_until(lambda: "loop claim waits for the database" in caplog.text, 60)
        allow(ENGINE_CONNECTIONS)
        running_ones = "SELECT count(*) FROM relevo.jobs WHERE state = 'running'"
        wait_until(lambda: value(owner, COUNT) == ENGINE_CONNECTIONS, 60, "the engine's own")
        wait_until(lambda: value(owner, running_ones) > 0, 60)
        # Long enough for waits that doubled without end to be longer than what is promised.
        query(database, "SELECT pg_sleep(8)")
        allowed_at = value(owner, "SELECT clock_timestamp()")
        allow(-1)
        wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.jobs WHERE live") == 0, 60)

    last = value(owner, "SELECT max(finished_at) FROM relevo.jobs")
    assert last - allowed_at <= BOUND + BUSY
    assert "too many connections for role" in caplog.text
    assert value(owner, "SELECT max(attempt - excused) FROM relevo.jobs") == 1
    assert value(owner, "SELECT sum(losses) FROM relevo.jobs") == 0
