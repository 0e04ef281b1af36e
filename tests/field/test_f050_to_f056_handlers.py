"""F-050 and F-052 to F-056: handlers that cancel themselves, hang or are unknown, and stops.

Mechanisms: whatever a handler raises ends its start and nothing else; a stop claims nothing
more, waits for the grace, then hands back without a charge; a kind that nobody here knows is
put off, never thrown away; every slot stands for itself; a loop that fails or falls silent is
started again and counted, and what cannot be started again ends the process.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from child_jobs import note, slow
from factories import history, job_row, make_due, value
from relevo import STANDARD, Context, Relevo
from relevo.loops import supervise
from relevo.loops import worker as worker_module
from relevo.loops.claimer import Claimer
from relevo.loops.listener import Listener
from relevo.loops.pruner import Pruner
from relevo.loops.rescuer import Rescuer
from relevo.loops.settler import Settler
from relevo.loops.supervise import Pulse
from relevo.model.kind import DEFAULT_TIMEOUT
from workers import a_child, effects, make_effects, query, running, settings, wait_until

POLL = timedelta(milliseconds=100)
BUSY = timedelta(seconds=2)
"""What a machine with two busy cores may add to a bound that is told by the server's clock."""

LOOPS = (Claimer, Settler, Listener, Rescuer, Pruner)


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def now(owner: psycopg.Connection) -> Any:
    return value(owner, "SELECT clock_timestamp()")


@pytest.mark.parametrize("by_task", [False, True])
def test_f050_a_handler_that_cancels_itself_has_failed_and_is_retried(
    database: str, owner: psycopg.Connection, *, by_task: bool
) -> None:
    """Red when CancelledError passes `except Exception`, or is taken for the worker's own."""
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        if by_task:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)
        raise asyncio.CancelledError

    @app.job("test.next")
    async def after(ctx: Context) -> None:
        """Nothing."""

    job = work.enqueue(owner)
    with running(app, database, poll=POLL):
        wait_until(lambda: history(owner, job.id), 60)
        other = after.enqueue(owner)
        wait_until(lambda: job_row(owner, other.id)["state"] == "completed", 60)

        assert value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'") == 0
    row, (attempt,) = job_row(owner, job.id), history(owner, job.id)
    assert (row["state"], row["last_error"]) == ("available", "cancelled inside handler")
    assert (attempt["outcome"], row["excused"]) == ("retried", 0)
    assert attempt["retry_at"] - attempt["finished_at"] >= STANDARD.delay(1) - BUSY


def test_f052_a_stop_waits_for_what_runs_and_starts_nothing(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a stop cancels instead of draining, or goes on claiming meanwhile."""
    with a_child(database, "field", grace=10, poll=0.1) as child:
        job = slow.enqueue(owner, seconds=3.0)
        wait_until(lambda: effects(database, "began"), 60)
        stopped_at = now(owner)
        child.send(signal.SIGTERM)
        wait_until(lambda: value(owner, "SELECT bool_and(stopping) FROM relevo.workers"), 60)
        with owner.transaction():
            note.enqueue_many(owner, [{}] * 10)
        code = child.wait(60)
        gone_at = now(owner)

    assert code == 0
    assert job_row(owner, job.id)["result"] == "done"
    assert gone_at - stopped_at < timedelta(seconds=4) + BUSY
    assert value(owner, "SELECT max(attempt) FROM relevo.jobs WHERE kind = 'child.note'") == 0


def test_f053_what_outlasts_the_grace_goes_back_and_starts_elsewhere_at_once(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a stop has no end, or ends and leaves its jobs running."""
    with a_child(database, "leaving", grace=2) as leaving:
        job = slow.enqueue(owner, seconds=60.0)
        wait_until(lambda: effects(database, "began"), 60)
        with a_child(database, "staying", poll=0.2):
            wait_until(lambda: value(owner, "SELECT count(*) FROM relevo.workers WHERE idle"), 60)
            stopped_at = now(owner)
            leaving.send(signal.SIGTERM)
            code = leaving.wait(60)
            gone_at = now(owner)
            wait_until(lambda: len(effects(database, "began")) == 2, 60)
            row, (attempt,) = job_row(owner, job.id), history(owner, job.id)

    assert code == 0
    assert (
        timedelta(seconds=2) <= attempt["finished_at"] - stopped_at <= timedelta(seconds=2) + BUSY
    )
    assert gone_at - stopped_at <= timedelta(seconds=5) + BUSY
    assert (attempt["outcome"], row["attempt"], row["excused"]) == ("released", 2, 1)
    assert row["started_at"] - attempt["finished_at"] <= timedelta(seconds=1) + BUSY


def test_f054_a_kind_that_is_not_deployed_waits_uncharged_until_it_is(
    database: str, owner: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when a claim of it, by whatever way it came, charges, crashes or discards."""
    app, starts = Relevo(), []

    @app.job("test.new")
    async def new(ctx: Context) -> None:
        starts.append(ctx.attempt)

    rolled_back = app.worker(settings(database, poll=POLL))
    # It claims the kind, as it said that it would, and then has no handler for it.
    rolled_back._registry = _Forgetful(app)  # type: ignore[assignment] -- forces the claim
    job = new.enqueue(owner)
    rolled_back.start()
    (attempt,) = wait_until(lambda: history(owner, job.id), 60)
    rolled_back.ask_to_stop()
    assert rolled_back.wait(60)
    row = job_row(owner, job.id)
    told = [r for r in caplog.records if "no handler for kind test.new" in r.getMessage()]
    with running(app, database, poll=POLL, name="deployed"):
        make_due(owner, job.id)
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 60)

    assert (row["state"], row["attempt"], row["excused"]) == ("available", 1, 1)
    assert row["available_at"] - attempt["finished_at"] >= timedelta(seconds=30) - BUSY
    assert len(told) == 1
    assert starts == [2]


class _Forgetful:
    """A registry that names its kinds and finds none."""

    def __init__(self, app: Relevo) -> None:
        self._app = app

    def find(self, _name: str) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._app.registry, name)


def test_f055_a_handler_that_never_ends_holds_one_slot_and_no_more(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a batch is awaited as a whole."""
    app, began = Relevo(), threading.Event()

    @app.job("test.never")
    async def never(ctx: Context) -> None:
        began.set()
        await asyncio.Event().wait()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    never.enqueue(owner)
    done = "SELECT count(*) FROM relevo.jobs WHERE state = 'completed'"
    with running(app, database, concurrency=4, grace=timedelta(0)):
        assert began.wait(60)
        with owner.transaction():
            work.enqueue_many(owner, [{}] * 1000)
        wait_until(lambda: value(owner, done) == 1000, 60)

        assert value(owner, "SELECT count(*) FROM relevo.jobs WHERE state = 'running'") == 1
    assert timedelta(0) < DEFAULT_TIMEOUT < timedelta(days=1)


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
def test_f056_every_loop_that_fails_or_hangs_is_started_again_and_counted(
    database: str,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    hangs: bool,
) -> None:
    """The number chosen: 30 s without a sign, beside poll and lease, is a hang; here less."""
    monkeypatch.setattr(supervise, "RESTART_AFTER", 0.05)
    pulses: dict[str, Pulse] = {}

    def broken_once(run: Any) -> Any:
        async def body(loop: Any, pulse: Pulse) -> None:
            if pulses.setdefault(pulse.name, pulse).restarts:
                await run(loop, pulse)
                return
            if hangs:
                await asyncio.Event().wait()
            msg = "broken"
            raise RuntimeError(msg)

        return body

    for loop in LOOPS:
        monkeypatch.setattr(loop, "run", broken_once(loop.run))
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    job = work.enqueue(owner)
    worker = app.worker(settings(database, poll=POLL, lease=timedelta(seconds=1.5)))
    # From here on, for its loops; the engine's own pulse, which ends the process, has its limit.
    monkeypatch.setattr(worker_module, "HANGS", 0.2)
    worker.start()
    wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 60)
    wait_until(lambda: len(pulses) == 5 and all(p.restarts for p in pulses.values()), 60)
    worker.ask_to_stop()
    assert worker.wait(60)

    assert sorted(pulses) == ["claim", "listen", "prune", "rescue", "settle"]
    assert caplog.text.count("hangs, starting it again" if hangs else "failed, starting it") >= 5
    assert query(database, "SELECT count(*) FROM relevo.workers") == [(0,)]
