"""Real workers, every outcome, a kill and an operator: the checker finds nothing to say."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from factories import a_tenant, value
from faults.checker import check, report
from faults.checker.sinks import count_repeats
from faults.evidence import History, Witness, install, read_history
from faults.mixed_jobs import Mixed, mixed_app
from relevo import DEFAULT_TENANT, KeyMode, cancel_jobs, perform
from relevo.db.drivers import run
from relevo.engine.jobs.again import requeue
from relevo.engine.jobs.prune import BEGINNING, prune
from relevo.engine.limits import set_limit
from relevo.model.scope import Scope
from workers import running, wait_until

OUTCOMES = (
    "mixed.inside",
    "mixed.function",
    "mixed.outside",
    "mixed.retry",
    "mixed.raises",
    "mixed.snooze",
    "mixed.fail",
    "mixed.cancel",
    "mixed.limited",
    "mixed.timed",
    "mixed.ordered",
)
EACH = 12


class Enqueuer:
    """Enqueues under references, and tells its witness what it knows."""

    def __init__(self, mixed: Mixed, connection: psycopg.Connection, witness: Witness) -> None:
        self.kinds, self.connection, self.witness = mixed.kinds, connection, witness
        self._refs = iter(range(10**6))

    def enqueue(self, kind: str, number: int = 1, **options: object) -> list[int]:
        """One transaction of so many jobs; their ids."""
        refs = [f"r{next(self._refs)}" for _ in range(number)]
        about = {"unit": refs[0], "kind": kind, "key": options.get("key")}
        tenant = options.get("tenant_id", DEFAULT_TENANT)
        for ref in refs:
            self.witness.note("intent", ref=ref, tenant_id=tenant, **about)
        job = self.kinds[kind].with_options(**options)
        with self.connection.transaction():
            found = [job.enqueue(self.connection, ref=ref) for ref in refs]
        for ref, one in zip(refs, found, strict=True):
            self.witness.note("enqueued", ref=ref, job_id=one.id, created=one.created)
        return [one.id for one in found if one.id is not None]

    def roll_back(self, kind: str) -> None:
        ref = f"r{next(self._refs)}"
        self.witness.note("intent", ref=ref)
        with self.connection.transaction():
            self.kinds[kind].enqueue(self.connection, ref=ref)
            raise psycopg.Rollback
        self.witness.note("rolled_back", ref=ref)


@contextmanager
def a_process(dsn: str, name: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    tests = str(Path(__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "faults.mixed_jobs", dsn, name, str(path)],
        env={**os.environ, "PYTHONPATH": tests},
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.core
@pytest.mark.timeout(120)
def test_everything_that_the_engine_does_breaks_no_promise(database: str, tmp_path: Path) -> None:
    install(database)
    paths = [tmp_path / name for name in ("enqueuer", "first", "second", "killed")]
    enqueuer_witness, first, second = map(Witness, paths[:3])
    mixed = mixed_app(first)
    with psycopg.connect(database, autocommit=True) as owner:
        jobs = Enqueuer(mixed, owner, enqueuer_witness)

        def live(where: str = "true") -> int:
            query = f"SELECT count(*) FROM relevo.jobs WHERE live AND {where}"  # noqa: S608 -- own text
            return value(owner, query)

        # A worker is killed with a job in its hands, which the next one takes back.
        (hung,) = jobs.enqueue("mixed.hang")
        with a_process(database, "killed", paths[3]) as process:
            wait_until(lambda: live("state = 'running'"))
            # Not before its handler has said that it runs.
            wait_until(lambda: paths[3].stat().st_size)
            process.kill()
        with owner.transaction():
            run(owner, set_limit(Scope.TENANT, "*", 5, actor="test"))
        # Another stops and hands back what does not come to an end.
        with running(mixed.app, database, name="first", grace=timedelta(milliseconds=50)):
            wait_until(lambda: live("state = 'running' AND attempt = 2"))
        _enqueue_everything(jobs, owner)
        later = jobs.enqueue("mixed.inside", delay=timedelta(hours=1), aggregate_id="a")
        with owner.transaction():
            perform(owner, cancel_jobs(DEFAULT_TENANT, "mixed.inside", "a"))
        with (
            running(mixed.app, database, name="first"),
            running(mixed_app(second).app, database, name="second"),
        ):
            wait_until(lambda: not live("available_at < now() + interval '10 s'"), 60)
            _ask_again(owner)
            wait_until(lambda: not live("available_at < now() + interval '10 s'"), 60)
        _prune(owner, later)

        history = read_history(database, paths)
        state = value(owner, "SELECT state FROM relevo.jobs WHERE id = %s", hung)

    violations = check(history)

    assert not violations, report(violations)
    assert state == "completed"
    _was_worth_it(history, hung)


def _enqueue_everything(jobs: Enqueuer, owner: psycopg.Connection) -> None:
    tenant = a_tenant(owner)
    for kind in OUTCOMES:
        jobs.enqueue(kind, EACH)
        jobs.enqueue(kind, EACH, tenant_id=tenant)
        jobs.roll_back(kind)
    for lane in "ab":
        jobs.enqueue("mixed.ordered", EACH, lane_key=lane)
    for number in range(EACH):
        for mode in KeyMode:
            jobs.enqueue("mixed.outside", key=f"k{number % 3}", key_mode=mode)
    # Enqueued without a lane, by SQL: it is given one before it starts.
    owner.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, payload, available_at)"
        " SELECT %s, kind, '{\"ref\": null}', now() + interval '1 hour'"
        " FROM unnest(ARRAY['nobody.knows']) AS k (kind)",
        [tenant],
    )
    owner.execute("UPDATE relevo.jobs SET available_at = now() WHERE kind = 'nobody.knows'")


def _ask_again(owner: psycopg.Connection) -> None:
    """An operator requeues what has failed, was cancelled, and was completed."""
    finished = owner.execute(
        "SELECT DISTINCT ON (kind, state, tenant_id) tenant_id, id FROM relevo.jobs WHERE NOT live"
    ).fetchall()
    for tenant_id, job_id in finished:
        with owner.transaction():
            run(owner, requeue(tenant_id, job_id, "operator"))


def _prune(owner: psycopg.Connection, kept: list[int]) -> None:
    owner.execute(
        "UPDATE relevo.jobs SET prune_at = clock_timestamp()"
        " WHERE prune_at IS NOT NULL AND id %% 3 = 0 AND id <> ALL (%s)",
        [kept],
    )
    with owner.transaction():
        assert run(owner, prune(BEGINNING)).jobs > 0


def _was_worth_it(history: History, hung: int) -> None:
    """Every sort of step was there to be judged."""
    steps = {(event.op, event.old_state, event.state) for event in history.events}
    assert {
        ("insert", None, "available"),
        ("update", "available", "running"),
        ("update", "available", "available"),
        ("update", "available", "cancelled"),
        ("update", "running", "available"),
        ("update", "running", "completed"),
        ("update", "running", "failed"),
        ("update", "running", "cancelled"),
        ("update", "completed", "available"),
        ("update", "failed", "available"),
        ("delete", "completed", "completed"),
    } <= steps
    assert {row.outcome for row in history.attempts} >= {
        "completed",
        "retried",
        "snoozed",
        "released",
        "lost",
        "failed",
        "cancelled",
    }
    ended = sorted((row.attempt, row.outcome) for row in history.attempts if row.job_id == hung)
    assert ended[:2] == [(1, "lost"), (2, "released")]
    assert {session.name for session in history.sessions} == {"killed", "first", "second"}
    assert len([one for one in history.sessions if one.ended_at is not None]) == 4
    assert {note.source for note in history.notes} == {"enqueuer", "first", "second", "killed"}
    assert {limit.measure for limit in history.limits} == {"running", "starts", "order"}
    assert count_repeats(history.notes) > 0
    assert len(history.effects) > EACH * 4
