"""What a claim costs: one statement, heap-only updates, and nothing at all where nothing is due."""

import tempfile
from pathlib import Path

import psycopg
import pytest
from plans import as_engine
from psycopg import sql

from factories import a_job, a_worker, claim_some, some_jobs, value
from relevo.db.embedded import Embedded
from relevo.db.migrate import ENGINE, migrate
from relevo.model.ring import Ring

pytestmark = pytest.mark.core


def claim_all(dsn: str, worker: int, batch: int) -> int:
    """Claim in batches until nothing is left, on a session of its own."""
    taken = 0
    with psycopg.connect(as_engine(dsn), autocommit=True) as session:
        while jobs := claim_some(session, worker, batch):
            taken += len(jobs)
    return taken


def counted(dsn: str) -> tuple[int, int]:
    """Updates and heap-only updates of jobs; sessions that ended have reported theirs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        found = connection.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables"
            " WHERE relid = 'relevo.jobs'::regclass"
        ).fetchone()
    return found[0], found[1]


def test_claims_of_jobs_without_a_waiting_key_are_heap_only_updates_all_of_them(
    database: str,
) -> None:
    """Red without the fill factor, or with any index over a column that the claim changes."""
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        some_jobs(owner, 20_000, payload='{"who": "somebody at the other end of the line"}')

    taken = claim_all(database, worker, 100)

    assert taken == 20_000
    assert counted(database) == (20_000, 20_000)


def test_the_catalogue_has_no_index_over_a_column_that_a_claim_or_a_heartbeat_changes(
    connection: psycopg.Connection,
) -> None:
    indexed = connection.execute(
        "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index AS i"
        " WHERE i.indrelid IN ('relevo.jobs'::regclass, 'relevo.workers'::regclass)"
    ).fetchall()

    changed = {"state", "worker", "attempt", "started_at", "expires_at", "heartbeat_at"}
    for name, definition in indexed:
        columns = definition.partition(" USING ")[2].replace("(", " ").replace(")", " ")
        words = set(columns.replace(",", " ").split())
        assert not words & changed, name


def test_an_empty_claim_writes_no_wal(database: str) -> None:
    """Red when the claim locks its worker's row, or a queue's, before it has found a job."""
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        a_job(owner, available_at="9000-01-01")
        a_job(owner, kind="somebody.elses")
        a_job(owner, state="running")
    with psycopg.connect(as_engine(database), autocommit=True) as session:
        for _ in range(7):
            assert claim_some(session, worker) == []

        with session.transaction():
            taken = claim_some(session, worker)
            # WAL of a transaction begins with its number; a lock on a row would take one.
            number = value(session, "SELECT pg_current_xact_id_if_assigned()::text")

    assert taken == []
    assert number is None


def test_a_claim_passes_by_another_claim_that_is_still_open(database: str) -> None:
    """Red without SKIP LOCKED: the second claim would wait for the first."""
    with psycopg.connect(database, autocommit=True) as owner:
        first, second = a_worker(owner), a_worker(owner)
        some_jobs(owner, 10)
    with (
        psycopg.connect(as_engine(database)) as open_claim,
        psycopg.connect(as_engine(database), autocommit=True) as session,
    ):
        session.execute("SET lock_timeout = '1ms'")
        held = claim_some(open_claim, first, 4)

        taken = claim_some(session, second, 100)

        open_claim.commit()
    assert len(held) == 4
    assert len(taken) == 6
    assert not {job.id for job in held} & {job.id for job in taken}


def test_a_claim_is_one_statement_in_the_servers_log() -> None:
    """Red when the claim is split into a SELECT and an UPDATE, or opens a transaction."""
    with tempfile.TemporaryDirectory(prefix="relevo-test-") as folder:
        # As root the server runs as somebody else, who has to get there.
        Path(folder).chmod(0o755)
        settings = {"log_statement": "all", "fsync": "off"}
        with Embedded(Path(folder) / "pg", settings=settings) as server:
            dsn = server.dsn()
            migrate(dsn, [ENGINE])
            with psycopg.connect(dsn, autocommit=True) as owner:
                worker = a_worker(owner)
                some_jobs(owner, 3)
            with psycopg.connect(as_engine(dsn), autocommit=True) as session:
                ring = Ring()
                session.execute("SELECT 'before the claim'")
                swept = claim_some(session, worker, 1, ring=ring)
                jobs = claim_some(session, worker, 2, ring=ring)
                session.execute("SELECT 'after the claim'")
            logged = (Path(folder) / "pg" / "server.log").read_text(errors="replace")

    between = logged.rpartition("'before the claim'")[2].partition("'after the claim'")[0]
    said = [line for line in between.splitlines() if "execute" in line or "statement:" in line]
    assert (len(swept), len(jobs)) == (1, 2)
    # A full sweep; the walk's last step, and where it stopped; a round: and the excerpt's end.
    marks = {"claim_jobs": "sweep", "claim_lanes": "round", "skip_lanes": "stop"}
    found = [next((name for mark, name in marks.items() if mark in line), "") for line in said]
    assert found == ["sweep", "sweep", "stop", "round", ""]


def test_a_claim_with_a_limit_of_zero_kinds_takes_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        a_job(owner)

        taken = claim_some(owner, worker, kinds=())

    assert taken == []


def test_a_claim_names_its_table_only_with_its_schema(connection: psycopg.Connection) -> None:
    worker = a_worker(connection)
    a_job(connection)
    connection.execute(sql.SQL("SET LOCAL search_path = ''"))

    taken = claim_some(connection, worker)

    assert len(taken) == 1
