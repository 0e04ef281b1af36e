"""Pruners beside each other, beside the flow of jobs, and beside a release without an archive."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from archiving import archive_on, archived, months, overdue_jobs
from factories import KIND, a_job, a_worker, claim_some, some_jobs, value
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, WEB_ROLE, WORKER_ROLE, with_session
from relevo.db.operation import Call
from relevo.db.statements import parse_statements
from relevo.engine.archive import Setting, drop_month, make_months, switch_archive
from relevo.engine.jobs.again import requeue
from relevo.engine.jobs.enqueue import enqueue_job
from relevo.engine.jobs.errors import JobNotFound
from relevo.engine.jobs.prune import BATCH, BEGINNING, prune
from relevo.model.job import NewJob
from workers import BOUND, wait_until

pytestmark = pytest.mark.core

# As a release has it that knows retention and no archive.
BEFORE = parse_statements(
    """
-- name: prune_jobs
-- Deletes finished jobs whose retention is over, a few at a time.
WITH old AS MATERIALIZED (
    SELECT gone.place
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now()
          AND NOT j.live
        ORDER BY j.prune_at
        LIMIT %(limit)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS gone
    LIMIT %(limit)s::integer
),
pruned AS (
    DELETE FROM relevo.jobs AS j
    WHERE j.ctid = ANY (ARRAY (SELECT old.place FROM old))
    RETURNING j.id
)
SELECT count(*)
FROM pruned;
"""
)["prune_jobs"]

Connect = Callable[..., psycopg.Connection]
CUTS = 8


@pytest.fixture
def connect(database: str) -> Iterator[Connect]:
    """Opens sessions as the engine has them, or of another role."""
    opened: list[psycopg.Connection] = []

    def open_one(role: str | None = WORKER_ROLE, *, autocommit: bool = True) -> psycopg.Connection:
        dsn = with_session(database, role=role, settings=ENGINE_SETTINGS)
        opened.append(psycopg.connect(dsn, autocommit=autocommit))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture
def owner(connect: Connect) -> psycopg.Connection:
    return connect(None)


def in_jobs(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM relevo.jobs"))


def prune_before(connection: psycopg.Connection) -> int:
    """Prune as the release before does."""

    def operation():
        rows = yield Call(BEFORE, {"limit": BATCH})
        return rows[0][0]

    return run(connection, operation())


@pytest.mark.parametrize(("archiving", "deleted"), [(False, 5), (True, 0)])
def test_a_pruner_that_knows_no_archive_deletes_only_while_it_is_off(
    owner: psycopg.Connection,
    connect: Connect,
    archiving: bool,  # noqa: FBT001 -- a parameter of the test
    deleted: int,
) -> None:
    """Mechanism: the policy jobs_archived_first; without it the jobs would be in neither."""
    run(owner, switch_archive(Setting(archiving=archiving, months=None)))
    overdue_jobs(owner, 5)

    gone = prune_before(connect())

    assert (gone, in_jobs(owner)) == (deleted, 5 - deleted)


def test_the_switch_holds_for_the_batch_that_has_begun_to_look(
    owner: psycopg.Connection, connect: Connect
) -> None:
    """A batch is of one mind: what it deletes unarchived it has found while the archive was off."""
    overdue_jobs(owner, 5)
    worker = connect(autocommit=False)
    taken = run(worker, prune())

    archive_on(owner)
    worker.commit()

    assert (taken.jobs, taken.archived) == (5, 0)
    overdue_jobs(owner, 5)
    with worker.transaction():
        assert run(worker, prune()).archived == 5


def test_what_a_handler_deletes_by_itself_is_deleted(
    owner: psycopg.Connection, connect: Connect
) -> None:
    """Red when the policy is about every row: who purges kept jobs would be told that it worked."""
    archive_on(owner)
    kept = a_job(owner, state="completed")
    later = a_job(owner, state="completed", prune_at="2100-01-01")

    gone = connect().execute("DELETE FROM relevo.jobs WHERE id = ANY (%s)", [[kept, later]])

    assert gone.rowcount == 2


def test_one_transaction_holds_a_batch_and_no_more(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    overdue_jobs(owner, 2 * BATCH + 100)
    pruner = connect(autocommit=False)
    assert run(pruner, prune()).jobs == BATCH

    free = connect().execute("SELECT id FROM relevo.jobs FOR UPDATE SKIP LOCKED").fetchall()

    assert len(free) == BATCH + 100
    assert (in_jobs(owner), len(archived(owner))) == (2 * BATCH + 100, 0)


def test_pruners_share_the_work_and_never_wait_for_each_other(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    overdue_jobs(owner, BATCH + 100)
    first, second = connect(autocommit=False), connect(autocommit=False)
    second.execute("SET lock_timeout = '1ms'")

    taken = [run(first, prune()).jobs, run(second, prune()).jobs]
    second.commit()
    first.commit()

    assert taken == [BATCH, 100]
    assert (in_jobs(owner), len(archived(owner))) == (0, BATCH + 100)


@pytest.mark.parametrize("beside", ["a batch", "a new month", "a month that goes"])
def test_claims_and_enqueues_never_wait_for_a_pruner(
    owner: psycopg.Connection, connect: Connect, beside: str
) -> None:
    """Red when a month is made as a partition, or with a lock on jobs or tenants that they need."""
    archive_on(owner)
    overdue_jobs(owner, 10)
    overdue_jobs(owner, 10, at="2020-05-05 00:00+00")
    if beside == "a month that goes":
        run(owner, make_months())
        run(owner, switch_archive(Setting(archiving=True, months=12)))
    some_jobs(owner, 20)
    worker = a_worker(owner)
    pruner = connect(autocommit=False)
    work = {"a batch": prune, "a new month": make_months, "a month that goes": drop_month}[beside]
    assert run(pruner, work())

    claimer, web = connect(), connect(WEB_ROLE)
    for session in (claimer, web):
        session.execute("SET lock_timeout = '1ms'")
    taken = claim_some(claimer, worker)
    made = run(web, enqueue_job(NewJob(DEFAULT_TENANT, "default", KIND, "{}")))
    finished = connect().execute("SELECT count(*) FROM relevo.jobs WHERE NOT live").fetchone()

    assert pruner.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    assert (len(taken), made.created, finished) == (20, True, (20,))


def test_a_month_is_made_beside_readers_and_pruners(
    owner: psycopg.Connection, connect: Connect
) -> None:
    """Mechanism: attached; as a partition it would wait for everybody who reads the archive."""
    archive_on(owner)
    overdue_jobs(owner, 3)
    pruner, reader = connect(autocommit=False), connect(WEB_ROLE, autocommit=False)
    run(pruner, prune())
    archived(reader)
    overdue_jobs(owner, 1, at="2020-05-05 00:00+00")

    assert run(connect(), make_months()) == 1
    assert "archive_2020_05" in months(owner)


def test_a_month_does_not_go_beside_a_reader_and_nobody_fails(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    overdue_jobs(owner, 1, at="2020-05-05 00:00+00")
    run(owner, make_months())
    run(owner, switch_archive(Setting(archiving=True, months=12)))
    reader = connect(WEB_ROLE, autocommit=False)
    archived(reader)

    while_read = run(connect(), drop_month())
    reader.commit()
    afterwards = run(connect(), drop_month())

    assert (while_read, afterwards) == (False, True)


def test_many_workers_make_the_same_months_once(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    ends = [f"2020-{month:02d}-15 00:00+00" for month in range(1, 7)]
    for end in ends:
        overdue_jobs(owner, 1, at=end)
    sessions = [connect() for _ in range(8)]
    gate = threading.Barrier(len(sessions))

    def make(session: psycopg.Connection) -> int:
        gate.wait(BOUND)
        return run(session, make_months())

    with ThreadPoolExecutor(len(sessions)) as threads:
        made = list(threads.map(make, sessions))

    assert sum(made) == len(ends)
    assert [f"archive_2020_{month:02d}" for month in range(1, 7)] == months(owner)[:6]


def test_a_batch_that_cannot_be_written_changes_nothing(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    overdue_jobs(owner, 3)
    owner.execute(
        "INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome)"
        " SELECT tenant_id, id, 1, 'retried' FROM relevo.jobs"
    )
    keeper, pruner = connect(None, autocommit=False), connect()
    keeper.execute("LOCK TABLE relevo.archive IN ACCESS EXCLUSIVE MODE")
    pruner.execute("SET lock_timeout = '50ms'")

    with pytest.raises(psycopg.errors.LockNotAvailable), pruner.transaction():
        run(pruner, prune())
    keeper.commit()

    assert (in_jobs(owner), len(archived(owner))) == (3, 0)
    assert value(owner, "SELECT count(*) FROM relevo.attempts") == 3


def test_a_job_that_is_retried_meanwhile_is_passed_by_and_one_that_is_archived_cannot_be_retried(
    owner: psycopg.Connection, connect: Connect
) -> None:
    archive_on(owner)
    overdue_jobs(owner, 2)
    first, second = (row[0] for row in owner.execute("SELECT id FROM relevo.jobs").fetchall())
    operator, pruner = connect(WEB_ROLE, autocommit=False), connect(autocommit=False)
    run(operator, requeue(DEFAULT_TENANT, first))
    assert run(pruner, prune()).jobs == 1
    operator.commit()

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(run, operator, requeue(DEFAULT_TENANT, second))
        wait_until(lambda: is_waiting(owner, operator))
        pruner.commit()
        with pytest.raises(JobNotFound):
            waiting.result(BOUND)

    assert [row["id"] for row in archived(owner)] == [second]
    assert value(owner, "SELECT id FROM relevo.jobs WHERE live") == first


def is_waiting(owner: psycopg.Connection, other: psycopg.Connection) -> bool:
    return bool(
        value(owner, "SELECT cardinality(pg_blocking_pids(%s))", other.info.backend_pid) > 0
    )


def test_pruners_that_are_cut_off_leave_each_job_in_one_place(
    owner: psycopg.Connection, database: str
) -> None:
    """Red when a move is two transactions: a cut between them leaves jobs in both or neither."""
    jobs = 3 * BATCH
    archive_on(owner)
    overdue_jobs(owner, jobs)
    owner.execute(
        "INSERT INTO relevo.attempts (tenant_id, job_id, attempt, outcome)"
        " SELECT tenant_id, id, 1, 'retried' FROM relevo.jobs"
    )
    dsn = with_session(
        database, role=WORKER_ROLE, settings=ENGINE_SETTINGS, application_name="cut me"
    )
    cuts = 0

    def keep_pruning() -> None:
        while in_jobs_of(dsn):
            try:
                with psycopg.connect(dsn) as connection:
                    after = BEGINNING
                    while (batch := run(connection, prune(after))).jobs:
                        connection.commit()
                        after = batch.last
            except psycopg.OperationalError:
                continue

    with ThreadPoolExecutor(2) as threads:
        pruners = [threads.submit(keep_pruning) for _ in range(2)]
        while cuts < CUTS and not all(each.done() for each in pruners):
            cuts += owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'cut me' AND state = 'active'"
                " AND query LIKE '%prune_jobs%' AND datname = current_database()"
            ).rowcount
        for each in pruners:
            each.result(BOUND)

    found = owner.execute(
        "SELECT count(*), count(DISTINCT id), min(jsonb_array_length(attempts)) FROM relevo.archive"
    ).fetchone()
    assert cuts > 0
    assert found == (jobs, jobs, 1)
    assert in_jobs(owner) == 0


def in_jobs_of(dsn: str) -> bool:
    while True:
        try:
            with psycopg.connect(dsn, application_name="counts") as connection:
                return in_jobs(connection) > 0
        except psycopg.OperationalError:
            continue
