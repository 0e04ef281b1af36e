"""F-025: nothing works behind a pooler in transaction mode.

Mechanisms: what the engine needs of a session are its role and its settings, which a login can
bring; it takes no lock of a session, and prepares nothing where the process id told at the
beginning is not that of the session that answers. LISTEN is tried there before it is relied
upon: a direct connection is the remedy, polling what is left.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import pooler
from child_jobs import note
from factories import job_row, states, value
from pooler import WORKER, Pooler
from relevo.db.dsn import ENGINE_SETTINGS, WORKER_ROLE
from workers import a_child, effects, make_effects, query, wait_until

pytestmark = pytest.mark.core

JOBS = 1000
BATCH = 100
NEVER = timedelta(minutes=10).total_seconds()
WARNING = "LISTEN does not work through this pooler"


@pytest.fixture
def pooled(
    server: str, template: str, database: str, pooler_before: Pooler | None
) -> Iterator[Pooler]:
    """The suite's pooler, or one of this test's own."""
    make_effects(database)
    if pooler_before is not None:
        yield pooler_before
        return
    pooler.make_logins(server)
    with pooler.a_pooler(server) as running, pooler.active(running):
        yield running
    pooler.drop_logins(server)


def is_idle(dsn: str) -> bool:
    return bool(query(dsn, "SELECT bool_or(idle) FROM relevo.workers")[0][0])


def run_one(dsn: str, how_long: float = 60) -> None:
    """Enqueue a job through the pooler, to a worker that is idle, and see it completed."""
    wait_until(lambda: is_idle(dsn), 60, "an idle worker")
    with pooler.connect(dsn, autocommit=True) as caller:
        job = note.enqueue(caller)
        wait_until(lambda: job_row(caller, job.id)["state"] == "completed", how_long)


def prepared(dsn: str, pooled: Pooler) -> tuple[set[int], int]:
    """Hold every session of the worker's login; answer their ids and what they have prepared."""
    known = {
        pid
        for (pid,) in query(
            dsn,
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = %s",
            WORKER,
        )
    }
    seen, found = set(), 0
    with ExitStack() as stack:
        for _ in known:
            held = psycopg.connect(pooled.through(dsn, WORKER), prepare_threshold=None)
            stack.enter_context(held)
            seen.add(value(held, "SELECT pg_backend_pid()"))
            found += value(held, "SELECT count(*) FROM pg_prepared_statements")
    assert seen == known
    return seen, found


def test_f025_a_thousand_jobs_complete_through_changing_sessions(
    database: str, pooled: Pooler
) -> None:
    with pooler.connect(database) as caller:
        for _ in range(JOBS // BATCH):
            for _ in range(BATCH):
                note.enqueue(caller)
            caller.commit()

    with a_child(database, "field", concurrency=8) as child:
        wait_until(lambda: len(effects(database, "once")) == JOBS, 120, "the jobs")
        with pooler.connect(database, autocommit=True) as looking:
            wait_until(lambda: states(looking) == {"completed": JOBS}, 60)
        child.send(signal.SIGTERM)
        assert child.wait(60) == 0

    written = effects(database, "once")
    assert len({job_id for job_id, _ in written}) == len(written) == JOBS
    assert {attempt for _, attempt in written} == {1}
    sessions, statements = prepared(database, pooled)
    assert len(sessions) > 1
    assert statements == 0


def test_f025_the_workers_login_brings_its_role_and_its_settings(
    database: str, pooled: Pooler
) -> None:
    names = list(ENGINE_SETTINGS)
    with psycopg.connect(pooled.through(database, WORKER), prepare_threshold=None) as session:
        user = value(session, "SELECT current_user")
        settings = {name: value(session, "SELECT current_setting(%s)", name) for name in names}

    assert user == WORKER_ROLE
    assert settings == dict(ENGINE_SETTINGS)


def test_f025_the_page_for_operators_gives_a_login_everything() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/operate-a-worker.md").read_text("utf-8")

    given = re.findall(r"^ALTER ROLE hr_worker SET (\w+) = '?([^';]+)'?;$", page, re.MULTILINE)

    assert dict(given) == {"role": WORKER_ROLE, **ENGINE_SETTINGS}


def test_f025_a_direct_listener_wakes_a_worker_behind_a_pooler(
    database: str, pooled: Pooler
) -> None:
    with a_child(database, "field", poll=NEVER) as child:
        run_one(database)
        run_one(database)
        log = child.end()

    assert WARNING not in log


def test_f025_without_a_direct_listener_it_warns_once_and_polls(
    database: str, pooled: Pooler
) -> None:
    with a_child(pooled.through(database, WORKER), "field", poll=1) as child:
        run_one(database)
        run_one(database)
        # The trial of the listener takes its time and has ended by then.
        wait_until(lambda: child.logged(WARNING), 60, "the warning")
        run_one(database)
        log = child.end()

    assert log.count(WARNING) == 1
    assert query(database, "SELECT FROM pg_stat_activity WHERE query = 'LISTEN relevo'") == []
