"""F-014: the rescuer stands between its look and its update while the worker completes the job.

Mechanism: the rescue takes a row only by the session that it saw there, under the row's lock.
"""

import threading

import psycopg
import pytest
from field_children import BOUND, is_blocked

from factories import a_job, a_worker, claim_some, history, job_row, settle_some
from relevo.db.drivers import run
from relevo.db.statements import load_statements
from relevo.engine.jobs.rescue import end_expired_sessions
from relevo.store.workers import lock_ended_workers
from workers import wait_until

RESCUE = load_statements("relevo.store.jobs", "recover.sql")["rescue_jobs"].sql
FOUND = "FROM found AS f\n"
# What was found is at hand when the lock is waited for, and no row is locked yet.
PAUSED = "FROM (SELECT found.*, pg_advisory_xact_lock_shared(14) FROM found OFFSET 0) AS f\n"


@pytest.mark.parametrize("place", ["between its statements", "between snapshot and lock"])
def test_f014_a_job_that_completes_while_its_rescuer_stands_stays_completed(
    database: str, place: str
) -> None:
    """Red without `j.worker = f.worker` where the rescue locks and looks again."""
    assert RESCUE.count(FOUND) == 1
    with psycopg.connect(database, autocommit=True) as owner:
        worker = a_worker(owner)
        job_id = a_job(owner)
        (job,) = claim_some(owner, worker)
        owner.execute("UPDATE relevo.workers SET expires_at = clock_timestamp()")
        run(owner, end_expired_sessions())
        rescued: list[list[tuple[object, ...]]] = []
        looked, go_on = threading.Event(), threading.Event()
        owner.execute("SELECT pg_advisory_lock(14)")

        def rescue() -> None:
            with psycopg.connect(database, application_name="rescuer") as rescuer:
                workers = run(rescuer, lock_ended_workers())
                looked.set()
                go_on.wait(BOUND)
                values = {"workers": workers, "keep": 1.0, "kept_kinds": []}
                statement = RESCUE.replace(FOUND, PAUSED)
                rescued.append(rescuer.execute(statement.encode(), values).fetchall())

        thread = threading.Thread(target=rescue)
        thread.start()
        assert looked.wait(BOUND)
        if place == "between snapshot and lock":
            go_on.set()
            wait_until(lambda: is_blocked(database, "rescuer"), BOUND)
        settled = settle_some(owner, worker, [job])
        completed = job_row(owner, job_id)

        go_on.set()
        owner.execute("SELECT pg_advisory_unlock(14)")
        thread.join(BOUND)

        assert not thread.is_alive()
        assert settled == {job_id: "completed"}
        assert rescued == [[]]
        assert job_row(owner, job_id) == completed
        assert (completed["state"], completed["last_error"]) == ("completed", None)
        assert history(owner, job_id) == []
