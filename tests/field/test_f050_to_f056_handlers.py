"""F-050 and F-052 to F-056: handlers that cancel themselves, hang or are unknown, and stops.

Mechanisms: whatever a handler raises ends its start and nothing else; a stop claims nothing
more, waits for the grace, then hands back without a charge; a kind that nobody here knows is
put off, never thrown away; every slot stands for itself; a loop that fails or falls silent is
started again and counted, and what cannot be started again ends the process.
"""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from field_children import BUSY, HERE, environment

from child_jobs import note, slow
from factories import history, job_row, make_due, value
from relevo import STANDARD, Context, Relevo
from relevo.loops import supervise
from relevo.loops import worker as worker_module
from relevo.loops.claimer import Claimer
from relevo.loops.listener import Listener
from relevo.loops.pruner import Pruner
from relevo.loops.rescuer import Rescuer
from relevo.loops.settings import EXIT_HUNG
from relevo.loops.settler import Settler
from relevo.loops.supervise import Pulse
from relevo.model.kind import DEFAULT_TIMEOUT
from relevo.model.settlement import UNKNOWN_KIND_DELAY
from workers import a_child, effects, make_effects, query, running, settings, wait_until

POLL = timedelta(milliseconds=100)
LOOPS = (Claimer, Settler, Listener, Rescuer, Pruner)


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    make_effects(database)
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def now(owner: psycopg.Connection) -> Any:
    return value(owner, "SELECT clock_timestamp()")


def assert_waits(attempt: dict[str, Any], delay: timedelta) -> None:
    """It waits exactly so long from the statement that ended it, all by the server's clock.

    That statement sets the time to wait for first, and the moment of the end after it.
    """
    assert attempt["started_at"] + delay < attempt["retry_at"] <= attempt["finished_at"] + delay


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
    assert_waits(attempt, STANDARD.delay(1))


def test_f052_a_stop_waits_for_what_runs_and_starts_nothing(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when a stop cancels instead of draining, or goes on claiming meanwhile.

    A stop is seen within 50 ms and no claim begins after that, so only a claim under way still
    starts something. Every claim has ended when the worker writes that it is stopping: nothing
    at all is started later than that, on however busy a machine.
    """
    owner.execute(
        "CREATE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.effects (note) VALUES ('stopping'); RETURN NEW; END $$"
    )
    owner.execute(
        "CREATE TRIGGER tell BEFORE UPDATE OF stopping ON relevo.workers FOR EACH ROW"
        " WHEN (NEW.stopping) EXECUTE FUNCTION public.tell()"
    )
    with a_child(database, "field", grace=10, poll=0.1, concurrency=4) as child:
        with owner.transaction():
            job = slow.enqueue(owner, seconds=3.0)
            # Three slots are never without work, and would not be through with it in ten seconds.
            note.enqueue_many(owner, [{"seconds": 0.02}] * 1500)
        wait_until(lambda: effects(database, "began"), 60)
        wait_until(lambda: len(effects(database, "once")) > 10, 60)
        stopped_at = now(owner)
        child.send(signal.SIGTERM)
        wait_until(lambda: effects(database, "stopping"), 60)
        with owner.transaction():
            late = note.enqueue_many(owner, [{}] * 10)
        code = child.wait(60)
        gone_at = now(owner)

    told_at = value(owner, "SELECT min(at) FROM public.effects WHERE note = 'stopping'")
    last_start = value(owner, "SELECT max(started_at) FROM relevo.jobs")
    assert code == 0
    assert job_row(owner, job.id)["result"] == "done"
    assert gone_at - stopped_at < timedelta(seconds=4) + BUSY
    assert last_start < told_at
    assert last_start - stopped_at <= timedelta(milliseconds=100) + BUSY
    untouched = "SELECT count(*) FROM relevo.jobs WHERE attempt = 0 AND available_at <= now()"
    assert value(owner, untouched) > len(late), "nothing was left that it could have started"
    assert {job_row(owner, each.id)["attempt"] for each in late} == {0}


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
    assert row["available_at"] == attempt["retry_at"]
    assert_waits(attempt, UNKNOWN_KIND_DELAY)
    assert timedelta(seconds=30) <= UNKNOWN_KIND_DELAY
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
    """The number chosen: 30 s without a sign, beside poll and lease, is a hang; here less.

    Who failed is started again within half a second, and who hangs so much later than the limit
    as the supervisor looks seldom, once a second at the least. A page of readiness that would
    answer 503 meanwhile does not exist yet.
    """
    pulses: dict[str, Pulse] = {}
    broken_at: dict[str, float] = {}
    mended_at: dict[str, float] = {}

    def broken_once(run: Any) -> Any:
        async def body(loop: Any, pulse: Pulse) -> None:
            if pulses.setdefault(pulse.name, pulse).restarts:
                mended_at.setdefault(pulse.name, time.monotonic())
                await run(loop, pulse)
                return
            broken_at[pulse.name] = time.monotonic()
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
    wait_until(lambda: len(mended_at) == 5, 60)
    worker.ask_to_stop()
    assert worker.wait(60)

    assert sorted(pulses) == ["claim", "listen", "prune", "rescue", "settle"]
    for name, pulse in pulses.items():
        seen_within = pulse.limit + min(1.0, pulse.limit / 2) if hangs else 0.0
        within = timedelta(seconds=seen_within + supervise.RESTART_AFTER)
        assert within < timedelta(seconds=5)
        assert timedelta(seconds=mended_at[name] - broken_at[name]) <= within + BUSY
        assert pulse.restarts >= 1
    assert caplog.text.count("hangs, starting it again" if hangs else "failed, starting it") >= 5
    assert query(database, "SELECT count(*) FROM relevo.workers") == [(0,)]


@pytest.mark.parametrize("how", ["ends", "hangs"])
def test_f056_a_worker_whose_heartbeat_ends_or_hangs_ends_with_a_code_of_its_own(
    database: str, how: str
) -> None:
    """Red when the watch of the engine does not look at the heartbeat.

    The number chosen: two leases and 15 s without a sign are a hang; here it is a second.
    """
    limit = 1.0
    with silent_worker(database, how, limit) as process:
        said = process.communicate(timeout=60)[1]
        ended_at = time.monotonic()

    assert process.returncode == EXIT_HUNG
    assert "hangs and cannot be started again" in said
    within = timedelta(seconds=limit if how == "hangs" else 0)
    assert timedelta(seconds=ended_at - broken_at(said)) <= within + BUSY


def test_f056_a_heartbeat_whose_beat_fails_goes_on_with_the_session_that_it_had(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when what a beat raises ends the heartbeat: the session would be lost with it."""
    # The beat after the first comes when a third of the lease is over, and is the broken one.
    next_beat = (
        "SELECT max(heartbeat_at - started_at) FROM relevo.workers"
        " WHERE heartbeat_at - started_at > interval '0.5 s'"
    )
    with silent_worker(database, "fails", 60.0) as process:
        beaten_after = wait_until(lambda: value(owner, next_beat), 60)
        sessions = query(database, "SELECT id FROM relevo.workers")
        process.kill()
        said = process.communicate(timeout=60)[1]

    assert "heartbeat waits for the database: injected into a beat" in said
    assert said.count(" begins for worker silent") == len(sessions) == 1
    assert beaten_after <= timedelta(seconds=1.5) + BUSY


@contextmanager
def silent_worker(database: str, how: str, limit: float) -> "Iterator[subprocess.Popen[str]]":
    """A worker process whose heartbeat breaks after its first beat."""
    program = str(HERE / "silent_worker.py")
    with subprocess.Popen(
        [sys.executable, program, database, how, str(limit)],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def broken_at(said: str) -> float:
    """When the heartbeat broke, by the clock of this machine's processes."""
    return next(float(line.split()[1]) for line in said.splitlines() if line.startswith("broken "))
