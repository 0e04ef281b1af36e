"""The evidence says what happened, all of it, and changes nothing of it."""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from factories import (
    a_job,
    a_tenant,
    a_worker,
    claim_some,
    job_row,
    make_due,
    settle_some,
    some_jobs,
    value,
)
from faults.checker import check
from faults.evidence import Event, Witness, install, read_history, read_notes
from limiting import ENGINES_LEVEL
from relevo.db.drivers import run
from relevo.engine.archive import make_months
from relevo.engine.jobs import session
from relevo.engine.jobs.again import cancel_jobs, requeue
from relevo.engine.jobs.prune import BEGINNING, prune
from relevo.engine.jobs.rescue import end_expired_sessions, rescue_lost_jobs
from relevo.model.settlement import Action
from workers import wait_until

pytestmark = pytest.mark.core


@pytest.fixture
def evident(database: str) -> str:
    install(database)
    return database


def steps(events: tuple[Event, ...]) -> list[tuple[str, str | None, str, int]]:
    return [(event.op, event.old_state, event.state, event.attempt) for event in events]


def test_every_change_of_a_job_is_an_event(evident: str, connection: psycopg.Connection) -> None:
    job_id = a_job(connection, payload={"ref": "r1"})
    worker = a_worker(connection)
    settle_some(connection, worker, claim_some(connection, worker), Action.RETRIED)
    connection.commit()
    make_due(connection, job_id)
    settle_some(connection, worker, claim_some(connection, worker))
    connection.execute("DELETE FROM relevo.jobs")
    connection.commit()

    history = read_history(evident)

    assert steps(history.events) == [
        ("insert", None, "available", 0),
        ("update", "available", "running", 1),
        ("update", "running", "available", 1),
        ("update", "available", "available", 1),
        ("update", "available", "running", 2),
        ("update", "running", "completed", 2),
        ("delete", "completed", "completed", 2),
    ]
    assert [event.version for event in history.events] == list(range(1, 8))
    assert history.events[0].ref == "r1"
    assert history.events[1].worker == worker == history.events[2].old_worker
    assert len({event.xact for event in history.events}) == 2
    assert not check(history, quiescent=False, allow={"I1"})


def test_what_is_rolled_back_leaves_no_event(evident: str, connection: psycopg.Connection) -> None:
    kept = a_job(connection)
    with connection.transaction():
        a_job(connection)
        connection.execute("UPDATE relevo.jobs SET priority = 1")
        raise psycopg.Rollback
    connection.commit()

    history = read_history(evident)

    assert [event.job_id for event in history.events] == [kept]


def test_what_was_there_before_the_evidence_is_found(
    database: str, connection: psycopg.Connection
) -> None:
    job_id = a_job(connection, state="running")
    connection.commit()
    install(database)
    install(database)

    history = read_history(database)

    assert steps(history.events) == [("found", None, "running", 1)]
    assert [session.id for session in history.sessions] == [job_row(connection, job_id)["worker"]]
    assert not check(history, quiescent=False)


def test_the_trigger_waits_for_nobody(evident: str, connection: psycopg.Connection) -> None:
    """Two transactions change two jobs in opposite order of everything: neither waits."""
    some_jobs(connection, 2)
    connection.commit()
    with psycopg.connect(evident, options=ENGINES_LEVEL) as other:
        other.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute("UPDATE relevo.jobs SET priority = 1 WHERE id = 1")
        other.execute("UPDATE relevo.jobs SET priority = 1 WHERE id = 2")
        other.commit()
    connection.commit()

    events = read_history(evident).events

    # Numbered when they were written, not when they were committed.
    assert [event.job_id for event in events] == [1, 2, 1, 2]


def test_versions_follow_the_lock_of_the_row(evident: str) -> None:
    """Many sessions change one row at once, and each event begins where another ended."""
    with psycopg.connect(evident, autocommit=True) as connection:
        a_job(connection)

    def change() -> None:
        with psycopg.connect(evident, autocommit=True, options=ENGINES_LEVEL) as connection:
            for _ in range(50):
                connection.execute("UPDATE relevo.jobs SET available_at = clock_timestamp()")

    threads = [threading.Thread(target=change) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    history = read_history(evident)

    assert len(history.events) == 201
    assert not check(history, quiescent=False)


def test_sessions_limits_and_their_ends_are_kept(
    evident: str, connection: psycopg.Connection
) -> None:
    worker = a_worker(connection, lease=-1)
    living = a_worker(connection)
    connection.execute(
        "INSERT INTO relevo.limits (scope, name, measure, most) VALUES ('queue', 'q', 'running', 3)"
    )
    connection.execute("UPDATE relevo.limits SET most = 2")
    connection.execute("DELETE FROM relevo.limits")
    run(connection, end_expired_sessions())
    run(connection, rescue_lost_jobs())
    connection.commit()

    history = read_history(evident)

    ended, lives = history.sessions
    assert (ended.id, lives.id) == (worker, living)
    assert ended.ended_at is not None
    assert ended.ended_at > ended.expires_at
    assert lives.ended_at is None
    assert [(one.op, one.most) for one in history.limits] == [
        ("insert", 3),
        ("update", 2),
        ("delete", 2),
    ]


def test_who_ends_a_lease_before_its_time_is_kept(
    evident: str, connection: psycopg.Connection
) -> None:
    worker, other = a_worker(connection), a_worker(connection)
    run(connection, session.renew(worker, 60))
    connection.execute("SET LOCAL application_name = 'relevo rescue w9'")
    run(connection, session.close_session(worker, ["default"]))
    connection.commit()

    ended, lives = read_history(evident).sessions

    assert (ended.id, ended.shortened_by) == (worker, ("relevo rescue w9",))
    assert ended.ended_at is not None
    assert ended.ended_at >= ended.expires_at
    assert (lives.id, lives.shortened_by) == (other, ())


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_is_pruned_goes_to_the_archive_while_it_is_on(
    evident: str, connection: psycopg.Connection, *, is_kept: bool
) -> None:
    connection.execute("UPDATE relevo.installation SET archiving = true")
    # It has been on for a while.
    connection.execute("UPDATE evidence.archiving SET at = at - interval '1 minute'")
    a_job(connection, state="completed", prune_at="now")
    # Where the evidence begins with a job that has ended.
    connection.execute("TRUNCATE evidence.events")
    connection.commit()
    install(evident)
    run(connection, make_months(BEGINNING))
    run(connection, prune(BEGINNING))
    if not is_kept:
        connection.execute("DELETE FROM relevo.archive")
    connection.commit()

    history = read_history(evident)

    assert [event.op for event in history.events] == ["found", "delete"]
    assert [violation.invariant for violation in check(history)] == ["I1"] * (not is_kept)


def test_other_roles_leave_evidence_and_cannot_forge_it(evident: str) -> None:
    with psycopg.connect(evident, options="-c role=relevo_web") as connection:
        a_job(connection)
        connection.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM evidence.events")
        connection.rollback()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO evidence.events (op) VALUES ('insert')")

    assert len(read_history(evident).events) == 1


def test_a_transaction_keeps_its_tenant_and_its_program_in_the_evidence(
    evident: str, connection: psycopg.Connection
) -> None:
    tenant = a_tenant(connection)
    connection.execute("SET LOCAL application_name = 'relevo settle w'")
    connection.execute("SELECT set_config('relevo.tenant', %s, true)", [str(tenant)])
    a_job(connection, tenant_id=tenant)
    connection.commit()

    (event,) = read_history(evident).events

    assert (event.tenant_id, event.scope, event.program) == (tenant, str(tenant), "relevo settle w")


def test_operators_leave_evidence_too(evident: str, connection: psycopg.Connection) -> None:
    job_id = a_job(connection, aggregate_id="a")
    tenant = job_row(connection, job_id)["tenant_id"]
    run(connection, cancel_jobs(tenant, "test.work", "a"))
    run(connection, requeue(tenant, job_id, "op"))
    connection.commit()

    history = read_history(evident)

    assert steps(history.events)[1:] == [
        ("update", "available", "cancelled", 0),
        ("update", "cancelled", "available", 0),
    ]
    assert not check(history, quiescent=False, allow={"I1"})


def test_evidence_brings_no_conflict_to_serializable_callers(
    evident: str, connection: psycopg.Connection
) -> None:
    """An event reads no table."""
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    a_job(connection)
    with psycopg.connect(evident) as other:
        other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        a_job(other)
        other.commit()
    connection.commit()

    assert value(connection, "SELECT count(*) FROM evidence.events") == 2


def test_a_witness_keeps_whole_lines_when_its_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    code = (
        "import sys; from pathlib import Path; from faults.evidence import Witness\n"
        "w = Witness(Path(sys.argv[1])); n = 0\n"
        "while True:\n    w.note('start', job_id=n, attempt=1, text='x' * 200); n += 1\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
    wait_until(lambda: path.exists() and path.stat().st_size > 5000)
    child.send_signal(signal.SIGKILL)
    child.wait()

    notes = read_notes([path])

    assert [note.job_id for note in notes] == list(range(len(notes)))
    assert {note.pid for note in notes} == {child.pid}


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "w")
    witness.note("intent", ref="a", unit="u", delay=timedelta(seconds=1))
    with (tmp_path / "w").open("a") as file:
        file.write('{"what": "enq')

    (note,) = read_notes([witness.path])

    assert (note.what, note.ref, note.fields) == ("intent", "a", {"unit": "u", "delay": "0:00:01"})
