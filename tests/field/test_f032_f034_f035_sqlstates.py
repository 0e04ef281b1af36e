"""F-032, F-034 and F-035: deadlocks, and errors that nobody is to blame for.

Mechanisms: a statement locks no row before it has seen that it is its own, and whoever
locks rows of others passes by those that are locked; answers are written again under the
same fence, so a refused end is no second start; a loop that fails waits and runs again.
"""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from random import Random

import psycopg
import pytest

from factories import KIND, a_worker, claim_some, job_row, some_jobs, value
from relevo import DEFAULT_TENANT, Context, Relevo, cancel_jobs
from relevo.db.drivers import run
from relevo.db.dsn import ENGINE_SETTINGS, with_session
from relevo.engine.jobs.rescue import rescue_lost_jobs
from relevo.engine.jobs.settle import settle
from relevo.loops import pruner, supervise
from relevo.model.settlement import Action, Settlement
from workers import SCALE, query, running, wait_until

WORKERS = 8
ENDS = (Action.COMPLETED, Action.COMPLETED, Action.RETRIED)
BATCH = 100
SECONDS = min(60.0, 4.0 * SCALE)
ALL_DONE = "SELECT bool_and(state = 'completed') FROM relevo.jobs"
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
MAINTENANCE = ("40001", "40P01", "55P03", "57014", "08006")

RAISE = """
CREATE TABLE public.raised (who text, what text, state text, at timestamptz DEFAULT now());
CREATE FUNCTION public.fail_in_turn() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    who text := split_part(current_setting('application_name'), ' ', 2);
    states text[] := TG_ARGV[1]::text[];
    -- A sequence remembers what its transaction may not keep.
    turn bigint;
BEGIN
    IF who <> ALL (TG_ARGV[0]::text[]) THEN
        RETURN NEW;
    END IF;
    turn := nextval(format('public.turn_%s_%s_%s', who, TG_TABLE_NAME, lower(TG_OP)));
    IF turn <= cardinality(states) THEN
        RAISE EXCEPTION 'on purpose' USING ERRCODE = states[turn];
    END IF;
    RETURN NEW;
END $$;
"""


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


class Crowd:
    """Everybody who locks the same rows, until the time is over or one of them fails."""

    def __init__(self, dsn: str) -> None:
        # With the settings of the engine's own sessions: a plan decides in which order it locks.
        self._dsn = with_session(dsn, settings=ENGINE_SETTINGS)
        self._over = threading.Event()
        self.failures: list[BaseException] = []
        self.settled = self.cancelled = self.rescued = 0

    def run(self, seconds: float) -> None:
        works = [self._complete] * WORKERS + [self._cancel, self._rescue]
        threads = [
            threading.Thread(target=self._repeat, args=(work, Random(place)))  # noqa: S311 -- no secret
            for place, work in enumerate(works)
        ]
        for thread in threads:
            thread.start()
        self._over.wait(seconds)
        self._over.set()
        for thread in threads:
            thread.join(60)

    def _repeat(self, work: Callable[..., None], random: Random) -> None:
        try:
            with psycopg.connect(self._dsn) as connection:
                worker = a_worker(connection, lease=600)
                connection.commit()
                while not self._over.is_set():
                    work(connection, worker, random)
                    connection.commit()
        except BaseException as error:  # noqa: BLE001 -- judged by the test
            self.failures.append(error)
            self._over.set()

    def _complete(self, connection: psycopg.Connection, worker: int, random: Random) -> None:
        some_jobs(connection, BATCH, aggregate_id="all")
        jobs = claim_some(connection, worker, BATCH)
        connection.commit()
        # Each statement by itself, as a worker settles.
        connection.autocommit = True
        random.shuffle(jobs)
        batch = [
            Settlement(job.tenant_id, job.id, job.attempt, random.choice(ENDS), keep=60)
            for job in jobs
        ]
        queue_of = {job.id: "default" for job in jobs}
        self.settled += len(run(connection, settle(worker, queue_of, batch)))
        connection.autocommit = False

    def _cancel(self, connection: psycopg.Connection, _worker: int, _random: Random) -> None:
        done = run(connection, cancel_jobs(DEFAULT_TENANT, KIND, "all"))
        self.cancelled += done.asked + done.cancelled

    def _rescue(self, connection: psycopg.Connection, _worker: int, _random: Random) -> None:
        lost = a_worker(connection, lease=-1)
        claim_some(connection, lost, BATCH)
        connection.commit()
        connection.execute("DELETE FROM relevo.workers WHERE id = %s", [lost])
        self.rescued += len(run(connection, rescue_lost_jobs()))


def test_f032_batches_in_random_order_meet_cancels_and_rescues_without_a_deadlock(
    database: str, owner: psycopg.Connection
) -> None:
    """Red when two statements lock rows of the other in another order."""
    crowd = Crowd(database)

    crowd.run(SECONDS)

    assert not crowd.failures
    assert query(database, DEADLOCKS) == [(0,)]
    assert min(crowd.settled, crowd.cancelled, crowd.rescued) > 0


def test_f034_an_end_that_the_server_refused_twice_is_written_and_the_handler_runs_once(
    database: str, owner: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """Red when a refused end gives the job up, or starts it again."""
    app = Relevo()
    starts: list[int] = []

    @app.job("test.work")
    async def work(ctx: Context) -> str:
        starts.append(ctx.attempt)
        return "kept"

    with owner.transaction():
        owner.execute(RAISE)
        owner.execute("CREATE SEQUENCE public.turn_settle_jobs_update")
        owner.execute(
            "CREATE TRIGGER fail BEFORE UPDATE ON relevo.jobs FOR EACH ROW"
            " WHEN (NEW.state = 'completed')"
            " EXECUTE FUNCTION public.fail_in_turn('{settle}', '{40001,40P01}')"
        )
    job = work.enqueue(owner)
    with running(app, database):
        wait_until(lambda: job_row(owner, job.id)["state"] == "completed", 60)

    row = job_row(owner, job.id)
    assert starts == [1]
    assert (row["attempt"], row["result"]) == (1, "kept")
    assert value(owner, "SELECT last_value FROM public.turn_settle_jobs_update") == 3
    assert caplog.text.count("answers could not be written yet: on purpose") == 2


LOOPS = (
    ("rescue", "workers", "DELETE"),
    ("rescue", "jobs", "UPDATE"),
    ("rescue", "ended_workers", "INSERT"),
    ("prune", "jobs", "DELETE"),
    ("prune", "permits", "DELETE"),
    ("heartbeat", "workers", "UPDATE"),
    ("claim", "jobs", "UPDATE"),
    ("claim", "workers", "UPDATE"),
)


def test_f035_no_error_of_the_server_ends_a_loop(
    database: str,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Red when an SQLSTATE that nobody thought of ends the loop, or the session with it."""
    monkeypatch.setattr(supervise, "RESTART_AFTER", 0.01)
    monkeypatch.setattr(supervise, "RESTART_AT_MOST", 0.05)
    monkeypatch.setattr(pruner, "EVERY", 0.1)
    app = Relevo()

    @app.job("test.work")
    async def work(ctx: Context) -> None:
        """Nothing."""

    with owner.transaction():
        owner.execute(RAISE)
        for who, table, what in LOOPS:
            turns = f"turn_{who}_{table}_{what}".lower()
            owner.execute(f"CREATE SEQUENCE public.{turns}".encode())
            name = f"fail_{who}_{what}".lower()
            states = ",".join(MAINTENANCE)
            owner.execute(
                f"CREATE TRIGGER {name} BEFORE {what} ON relevo.{table} FOR EACH STATEMENT"
                f" EXECUTE FUNCTION public.fail_in_turn('{{{who}}}', '{{{states}}}')".encode()
            )
        turns = " UNION ALL ".join(
            f"SELECT last_value FROM public.turn_{who}_{table}_{what.lower()}"  # noqa: S608 -- ours
            for who, table, what in LOOPS
        )
        work.enqueue_many(owner, [{}] * 20)
        lost = a_worker(owner, lease=-1)

    def all_raised() -> bool:
        least = f"SELECT min(last_value) FROM ({turns}) AS t"  # noqa: S608 -- our own names
        return bool(value(owner, least) > len(MAINTENANCE))

    with running(app, database, lease=timedelta(seconds=1), poll=timedelta(seconds=0.1)):
        wait_until(all_raised, 60, "every error in every loop")
        wait_until(
            lambda: value(owner, "SELECT bool_and(state = 'completed') FROM relevo.jobs"), 60
        )
        wait_until(
            lambda: not query(database, "SELECT FROM relevo.workers WHERE id = %s", lost), 60
        )
        sessions = query(database, "SELECT count(*), max(id) FROM relevo.workers")

    assert sessions == [(1, lost + 1)]
    assert value(owner, "SELECT max(attempt - excused) FROM relevo.jobs") == 1
    for who in ("rescue", "prune", "claim"):
        assert caplog.text.count(f"loop {who} waits for the database: on purpose") >= 5
    assert caplog.text.count("heartbeat waits for the database: on purpose") == 5
    assert "failed, starting it again" not in caplog.text
