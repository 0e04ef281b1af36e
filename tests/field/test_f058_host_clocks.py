"""F-058: workers on hosts whose clocks are an hour ahead and an hour behind.

Mechanism: the database's clock is the only one. A due time, a lease and a retry are set and
compared by the server; a host says how long, never when. The lease counts from clock_timestamp():
now() would be the beginning of a transaction.
"""

import ast
import time
from datetime import timedelta
from importlib.resources import files
from pathlib import Path

import psycopg
from field_children import BOUND, BUSY, a_field_child, clock, marks
from field_jobs import brief, long
from shifted_clock import environment

from factories import job_row, value
from relevo.db.statements import load_statements
from workers import LEASE, make_effects, query, scaled, wait_until

HOUR = 3600
DUE_IN = timedelta(seconds=scaled(8, 10))

READS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("date", "today")}

READERS = {
    "model/ids.py": "an id's first half, which nobody compares with a time",
    "cli": "what a person is shown",
    "integrations/smtp": "the Date of a letter",
}
"""Who in the package may ask the host what time it is, and what for."""


def belief(log: str) -> int:
    """What a worker's process took for the time when it started."""
    return next(int(line.split()[1]) for line in log.splitlines() if line.startswith("believes "))


def test_f058_hosts_an_hour_ahead_and_behind_start_on_time_and_take_nothing_early(
    database: str,
) -> None:
    """The database's clock is the only one. Red when a due time or a lease is the host's."""
    make_effects(database)
    with (
        psycopg.connect(database, autocommit=True) as owner,
        a_field_child(database, "ahead", environment(HOUR), concurrency=1) as ahead,
        a_field_child(database, "behind", environment(-HOUR), concurrency=1) as behind,
    ):
        seen = "SELECT count(*) FROM relevo.workers"
        wait_until(lambda: value(owner, seen) == 2, BOUND, "both workers")
        # One each: what the one holds for three leases the other must not take for lost.
        with owner.transaction():
            held = long.enqueue_many(owner, [{"seconds": 3 * LEASE.total_seconds()}] * 2)
        wait_until(lambda: len(marks(database, "began")) == 2, BOUND)
        asked_at = clock(database)
        later = brief.with_options(delay=DUE_IN).enqueue(owner)
        wait_until(lambda: value(owner, "SELECT bool_and(NOT live) FROM relevo.jobs"), BOUND)
        sessions = query(database, "SELECT expires_at FROM relevo.workers")
        read_at, pids = clock(database), {ahead.pid, behind.pid}
        rows = [job_row(owner, job.id) for job in (*held, later)]
        believed = [belief(child.end()) for child in (ahead, behind)]

    assert believed[0] - believed[1] > HOUR
    assert abs(believed[0] - HOUR - time.time()) < HOUR / 2
    assert {pid for _, attempt, pid in marks(database, "began")[:2]} == pids
    assert [(row["state"], row["attempt"], row["losses"]) for row in rows] == [
        ("completed", 1, 0)
    ] * 3
    # Both slots are free again before that, unless the machine is very busy.
    free_at = min(row["finished_at"] for row in rows[:-1])
    due_at, started_at = rows[-1]["available_at"], rows[-1]["started_at"]
    assert DUE_IN <= due_at - asked_at <= DUE_IN + BUSY
    assert due_at <= started_at <= max(due_at, free_at) + timedelta(seconds=1) + BUSY
    assert all(-BUSY < expires_at - read_at <= LEASE for (expires_at,) in sessions)


def test_f058_no_module_that_makes_a_statement_asks_the_host_for_the_time() -> None:
    """A host says how long, never when. Red when a module begins to read the host's clock."""
    root = Path(str(files("relevo")))

    readers = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in READS
    }

    assert readers
    assert {path for path in readers if not path.startswith(tuple(READERS))} == set()


def test_f058_a_lease_counts_from_the_clock_and_not_from_the_transaction() -> None:
    """Red when a lease is set from now()."""
    statements = load_statements("relevo.store", "workers.sql")

    for name in ("insert_worker", "renew_worker", "expire_worker", "delete_expired_workers"):
        assert "clock_timestamp()" in statements[name].sql
        assert " now()" not in statements[name].sql
