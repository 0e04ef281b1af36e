"""Somebody sets a limit and does not commit: nothing starts meanwhile, and nothing is lost."""

import threading
from datetime import datetime, timedelta

import psycopg
import pytest

from factories import a_tenant, some_jobs, states, value
from relevo import Context, Limit, Relevo
from relevo.db.drivers import run
from relevo.engine.limits import list_limits, remove_limit, set_limit
from relevo.model.scope import Scope
from workers import running, wait_until

LEASE = timedelta(seconds=1)
BEAT = "SELECT max(heartbeat_at) FROM relevo.workers"


@pytest.fixture
def look(database: str):
    with psycopg.connect(database, autocommit=True) as opened:
        yield opened


def holder(release: threading.Event) -> tuple[Relevo, list[int]]:
    """An application whose jobs run until they are let go, and the attempts that began."""
    app, began = Relevo(), []

    @app.job("held.open")
    def hold(ctx: Context) -> None:
        began.append(ctx.attempt)
        assert release.wait(60)

    return app, began


def test_whoever_keeps_a_limit_open_takes_no_session_and_no_job_from_a_worker(
    database: str, look: psycopg.Connection
) -> None:
    """Red when setting a limit locks the table that heartbeats write: sessions would end."""
    release = threading.Event()
    app, began = holder(release)
    some_jobs(look, 20, kind="held.open")
    with running(app, database, lease=LEASE, concurrency=2) as worker:
        wait_until(lambda: len(began) == 2)
        sessions = look.execute("SELECT id FROM relevo.workers").fetchall()
        with psycopg.connect(database) as setting:
            run(setting, set_limit(Scope.QUEUE, "default", 5))
            since: datetime = value(look, "SELECT clock_timestamp()")

            def outlasted() -> bool:
                setting.execute("SELECT")
                return value(look, BEAT) > since + 2 * LEASE

            wait_until(outlasted, what="heartbeats beside the open transaction")
            assert look.execute("SELECT id FROM relevo.workers").fetchall() == sessions
            assert states(look) == {"available": 18, "running": 2}
            setting.commit()
        release.set()
        wait_until(lambda: states(look) == {"completed": 20})
        worker.ask_to_stop()

    assert value(look, "SELECT count(*) FROM relevo.attempts") == 0
    assert set(began) == {1}


def test_what_holds_claims_back_is_bounded_and_only_for_its_transaction(
    look: psycopg.Connection, database: str
) -> None:
    """The server ends one who forgets to commit; red without the bounds."""
    shown = (
        "SELECT current_setting('lock_timeout'),"
        " current_setting('idle_in_transaction_session_timeout')"
    )
    with psycopg.connect(database) as setting:
        run(setting, set_limit(Scope.QUEUE, "default", 5))
        within = setting.execute(shown).fetchone()
        setting.commit()
        after = setting.execute(shown).fetchone()

    assert within == ("2s", "5s")
    assert after == ("0", "0")


def test_a_claim_that_does_not_end_holds_up_others_for_two_seconds_only(
    look: psycopg.Connection, database: str
) -> None:
    """Whoever waits for the lock holds up new claims; red when it waits for as long as it takes."""
    with psycopg.connect(database) as claiming, psycopg.connect(database) as setting:
        claiming.execute("SELECT FROM relevo.limits FOR KEY SHARE")

        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(setting, set_limit(Scope.QUEUE, "default", 5))

    assert run(look, list_limits()) == []


def test_a_paused_tenant_under_limits_starts_nothing_and_goes_on_when_it_is_resumed(
    database: str, look: psycopg.Connection
) -> None:
    tenant = a_tenant(look)
    app = Relevo()

    @app.job("held.each", limits=[Limit(3)])
    def each(_ctx: Context) -> None:
        """Nothing to do."""

    pause = "INSERT INTO relevo.pauses (scope, name, reason) VALUES ('tenant', %s, 'x')"
    look.execute(pause, [str(tenant)])
    with look.transaction():
        each.enqueue_many(look, [{}] * 20)
        each.with_options(tenant_id=tenant).enqueue_many(look, [{}] * 20)

    with running(app, database, poll=timedelta(milliseconds=50)):
        wait_until(lambda: states(look).get("completed") == 20)
        paused = value(
            look, "SELECT count(*) FROM relevo.jobs WHERE tenant_id = %s AND attempt > 0", tenant
        )
        look.execute("DELETE FROM relevo.pauses")
        wait_until(lambda: states(look).get("completed") == 40)

    assert paused == 0


def test_a_limit_of_a_kind_that_others_serve_is_none_of_a_workers_business(
    database: str, look: psycopg.Connection
) -> None:
    """One process serves one kind, one the other; the limit of one holds up only its own."""
    mine, theirs = Relevo(), Relevo()

    @mine.job("held.mine")
    def free(_ctx: Context) -> None:
        """Nothing to do."""

    @theirs.job("held.theirs")
    def limited(_ctx: Context) -> None:
        """Nothing to do."""

    with look.transaction():
        run(look, set_limit(Scope.KIND, "held.theirs", 0, actor="ada"))
    done = "SELECT kind, count(*) FROM relevo.jobs WHERE state = 'completed' GROUP BY 1 ORDER BY 1"

    with (
        running(mine, database, poll=timedelta(milliseconds=50), name="mine"),
        running(theirs, database, poll=timedelta(milliseconds=50), name="theirs"),
    ):
        # Jobs that nobody serves yet would be put off.
        wait_until(lambda: value(look, "SELECT count(*) FROM relevo.workers") == 2)
        with look.transaction():
            limited.enqueue_many(look, [{}] * 20)
            free.enqueue_many(look, [{}] * 20)
        wait_until(lambda: look.execute(done).fetchall() == [("held.mine", 20)])
        with look.transaction():
            run(look, remove_limit(Scope.KIND, "held.theirs"))
        both = [("held.mine", 20), ("held.theirs", 20)]
        wait_until(lambda: look.execute(done).fetchall() == both)
