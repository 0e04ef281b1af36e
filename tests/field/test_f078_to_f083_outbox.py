"""F-078 to F-083: history that a retry overwrites, and jobs that part from their transaction.

Mechanisms: a manual retry goes on counting, and an end that succeeded is written to the
history first; what is claimed is chosen by its row, never by an id that was seen last, and a
sweep looks behind every floor; the job's row and its hint are part of the caller's
transaction, savepoints included; a start that was cut off is repeated under the same key.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from random import Random

import psycopg
import pytest

from factories import history, job_row, value
from relevo import DEFAULT_TENANT, Context, NotInTransaction, Relevo, UnknownConnection
from relevo.db.drivers import run
from relevo.engine.jobs.again import requeue
from workers import query, running, scaled, wait_until

ROUNDS = scaled(60, 200)
WRITERS = 6
POLL = timedelta(milliseconds=100)
SECOND = timedelta(seconds=1)
BUSY = timedelta(seconds=2)
"""What a machine with two busy cores may add to a bound that is told by the server's clock."""

RELAY = Path(__file__).parent / "dying_relay.py"


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def completed(owner: psycopg.Connection) -> int:
    return int(value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"))


def test_f078_a_retry_by_hand_adds_an_attempt_and_keeps_those_before(
    database: str, owner: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("test.work", max_attempts=1)
    async def work(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ConnectionError("no route")
        return f"start {ctx.attempt}"

    job = work.enqueue(owner)
    seen = []
    with running(app, database, poll=POLL):
        for state, actor in (("failed", "ada"), ("completed", "bob"), ("completed", None)):
            wait_until(lambda state=state: job_row(owner, job.id)["state"] == state, 60)
            seen.append((job_row(owner, job.id), history(owner, job.id)))
            if actor is not None:
                with owner.transaction():
                    run(owner, requeue(DEFAULT_TENANT, job.id, actor))

    (failed, first), (_, second), (last, third) = seen
    assert [attempt["outcome"] for attempt in third] == ["failed", "completed"]
    assert "no route" in third[0]["error"]
    assert first == second == third[:1]
    assert third[0]["started_at"] == failed["started_at"]
    assert (last["attempt"], last["result"], last["requeued_by"]) == (3, "start 3", "bob")
    assert failed["finished_at"] < last["requeued_at"] < last["started_at"]


def test_f079_what_commits_behind_what_was_delivered_is_delivered(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a relay remembers how far it came."""
    app = Relevo()
    starts: list[int] = []

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        starts.append(ctx.job_id)

    with running(app, database, poll=POLL), psycopg.connect(database) as early:
        first = work.enqueue(early)
        second = work.enqueue(owner)
        wait_until(lambda: starts == [second.id], 60)
        early.commit()
        wait_until(lambda: starts == [second.id, first.id], 60)

        def write(number: int) -> int:
            random = Random(number)  # noqa: S311 -- repeats a run, no secret
            with psycopg.connect(database) as connection:
                for _ in range(ROUNDS // WRITERS):
                    work.enqueue(connection)
                    connection.execute("SELECT pg_sleep(%s)", [random.uniform(0, 0.05)])
                    connection.commit()
            return ROUNDS // WRITERS

        with ThreadPoolExecutor(WRITERS) as pool:
            written = sum(pool.map(write, range(WRITERS)))
        wait_until(lambda: completed(owner) == written + 2, 60)

    assert len(starts) == len(set(starts)) == written + 2


def test_f080_and_f081_a_job_and_its_hint_live_and_die_with_their_transaction(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a job is written, or told of, by anything but the caller's own commit."""
    app = Relevo()
    starts: list[int] = []

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        starts.append(ctx.job_id)

    idle = "SELECT bool_or(idle) FROM relevo.workers"
    with (
        running(app, database, poll=timedelta(seconds=0.5)),
        psycopg.connect(database) as held,
        psycopg.connect(database) as undone,
        psycopg.connect(database, autocommit=True) as ear,
    ):
        wait_until(lambda: value(owner, idle), 60)
        ear.execute("LISTEN relevo")
        with undone.transaction(force_rollback=True), undone.transaction():
            work.enqueue(undone)
        undone.rollback()
        nothing = list(ear.notifies(timeout=0.5))
        wanted = work.enqueue(held)
        with held.transaction(force_rollback=True):
            work.enqueue(held)
        query(database, "SELECT pg_sleep(2)")  # the case's own time
        early = list(starts)
        committed_at = value(owner, "SELECT clock_timestamp()")
        held.commit()
        wait_until(lambda: completed(owner) == 1, 60)

    assert nothing == []
    assert early == []
    assert starts == [wanted.id]
    assert value(owner, "SELECT count(*) FROM relevo.jobs") == 1
    assert job_row(owner, wanted.id)["started_at"] - committed_at <= SECOND + BUSY


def test_f081_an_enqueue_needs_a_connection_and_a_keyed_one_a_transaction(
    owner: psycopg.Connection,
) -> None:
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    with pytest.raises(TypeError):
        work.enqueue()  # type: ignore[call-overload]
    with pytest.raises(UnknownConnection):
        work.enqueue(None)  # type: ignore[call-overload]
    with pytest.raises(NotInTransaction):
        work.with_options(key="k").enqueue(owner)
    assert value(owner, "SELECT count(*) FROM relevo.jobs") == 0


def test_f083_a_relay_killed_before_its_mark_delivers_again_under_the_same_key(
    database: str, owner: psycopg.Connection, tmp_path: Path
) -> None:
    """The sink has accepted, the process dies, nothing was marked."""
    sink = tmp_path / "sink"
    owner.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, payload)"
        " SELECT id, 'relay.event', jsonb_build_object('sink', %s::text) FROM relevo.tenants",
        [str(sink)],
    )
    command = [sys.executable, str(RELAY), database]
    environment = {**os.environ, "PYTHONPATH": str(RELAY.parents[1])}

    first = subprocess.run(command, env=environment, timeout=60, check=False)
    second = subprocess.run(command, env=environment, timeout=60, check=False)

    assert (first.returncode, second.returncode) == (-9, 0)
    deliveries = [line.split() for line in sink.read_text().splitlines()]
    assert [attempt for _, _, attempt in deliveries] == ["1", "2"]
    assert len({(event, key) for event, key, _ in deliveries}) == 1
    assert query(database, "SELECT state, attempt FROM relevo.jobs") == [("completed", 2)]
    page = Path(__file__).parents[2] / "docs" / "explanation" / "reliability.md"
    assert "at least once, under the same key" in page.read_text(encoding="utf-8")
