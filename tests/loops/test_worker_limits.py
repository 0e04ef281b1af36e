"""A worker under limits starts what it may at once, whoever ends what stood in the way."""

from datetime import timedelta

import psycopg

from factories import states, value
from relevo import Context, Limit, Relevo, Retry
from relevo.db.drivers import run
from relevo.engine.limits import list_limits, set_limit
from relevo.model.scope import Scope
from workers import running, wait_until

POLL = timedelta(seconds=60)


def done(connection: psycopg.Connection, number: int) -> None:
    def all_done() -> bool:
        connection.rollback()
        return states(connection).get("completed", 0) == number

    wait_until(all_done, what=f"{number} completed jobs")


def test_an_ordered_lane_flows_without_waiting_for_the_poll(
    database: str, connection: psycopg.Connection
) -> None:
    app, order = Relevo(), []

    @app.job("bank.post", ordered=True)
    def post(_ctx: Context, account: str, number: int) -> None:
        order.append((account, number))

    with connection.transaction():
        for account in ("a", "b", "c"):
            post.with_options(lane_key=account).enqueue_many(
                connection, [{"account": account, "number": n} for n in range(20)]
            )

    with running(app, database, poll=POLL):
        done(connection, 60)

    for account in ("a", "b", "c"):
        assert [n for who, n in order if who == account] == list(range(20))


def test_a_bulk_enqueue_gives_each_job_its_lane(
    database: str, connection: psycopg.Connection
) -> None:
    app, order = Relevo(), []

    @app.job("bank.post", ordered=True)
    def post(_ctx: Context, account: str, number: int) -> None:
        order.append((account, number))

    with connection.transaction():
        post.enqueue_many(
            connection,
            [{"account": str(n % 3), "number": n} for n in range(30)],
            lane_keys=[str(n % 3) for n in range(30)],
        )

    with running(app, database, poll=POLL):
        done(connection, 30)

    assert value(connection, "SELECT count(DISTINCT lane) FROM relevo.jobs") == 3
    for account in range(3):
        assert [n for who, n in order if who == str(account)] == list(range(account, 30, 3))


def test_a_retry_in_an_ordered_lane_comes_before_those_behind_it(
    database: str, connection: psycopg.Connection
) -> None:
    app, order = Relevo(), []

    @app.job("bank.post", ordered=True)
    def post(ctx: Context, number: int) -> Retry | None:
        order.append(number)
        if number == 1 and ctx.attempt < 3:
            return Retry(in_=timedelta(milliseconds=50))
        return None

    with connection.transaction():
        post.enqueue_many(connection, [{"number": n} for n in range(4)])

    with running(app, database):
        done(connection, 4)

    assert order == [0, 1, 1, 1, 2, 3]


def test_declared_limits_hold_from_the_first_claim(
    database: str, connection: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("crm.push", limits=[Limit(3), Limit(1, per="lane")])
    def push(_ctx: Context) -> None:
        with psycopg.connect(database, autocommit=True) as looking:
            looking.execute(
                "INSERT INTO seen SELECT count(*), count(*) - count(DISTINCT lane)"
                " FROM relevo.jobs WHERE worker IS NOT NULL"
            )

    with connection.transaction():
        connection.execute("CREATE TABLE seen (running int, doubled int)")
        push.enqueue_many(connection, [{}] * 40, lane_keys=[f"customer {n % 4}" for n in range(40)])

    with running(app, database, poll=POLL):
        done(connection, 40)

    assert connection.execute("SELECT max(running), max(doubled) FROM seen").fetchone() == (3, 0)
    assert {(row.scope, row.most) for row in run(connection, list_limits())} == {
        (Scope.KIND, 3),
        (Scope.LANE, 1),
    }


def test_starts_within_a_time_are_bounded_and_come_without_the_poll(
    database: str, connection: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("crm.push", limits=[Limit(5, within=timedelta(seconds=0.5))])
    def push(_ctx: Context) -> None:
        """Nothing to do."""

    with connection.transaction():
        push.enqueue_many(connection, [{}] * 20)

    with running(app, database, poll=POLL):
        done(connection, 20)

    # The sixth start after any start comes at least half a second later.
    closest = value(
        connection,
        "SELECT min(later - started_at) FROM (SELECT started_at,"
        " lead(started_at, 5) OVER (ORDER BY started_at) AS later FROM relevo.jobs) AS starts",
    )
    assert closest >= timedelta(seconds=0.5)


def test_a_draining_worker_waits_for_starts_that_come_later(
    database: str, connection: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("crm.push", limits=[Limit(2, within=timedelta(seconds=0.3))])
    def push(_ctx: Context) -> None:
        """Nothing to do."""

    with connection.transaction():
        push.enqueue_many(connection, [{}] * 6)

    with running(app, database, poll=POLL, drain=True) as worker:
        assert worker.wait(20)

    connection.rollback()
    assert states(connection) == {"completed": 6}


def test_a_limit_set_while_a_worker_is_busy_is_noticed_at_once(
    database: str, connection: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("crm.push")
    def push(_ctx: Context) -> None:
        with psycopg.connect(database, autocommit=True) as looking:
            looking.execute(
                "INSERT INTO seen SELECT clock_timestamp(), count(*)"
                " FROM relevo.jobs WHERE worker IS NOT NULL"
            )

    with connection.transaction():
        connection.execute("CREATE TABLE seen (at timestamptz, running int)")
        push.enqueue_many(connection, [{}] * 300)

    with running(app, database, poll=POLL):
        wait_until(lambda: connection.rollback() or value(connection, "SELECT count(*) FROM seen"))
        connection.rollback()
        with connection.transaction():
            run(connection, set_limit(Scope.QUEUE, "default", 2))
        set_at = value(connection, "SELECT clock_timestamp()")
        connection.rollback()
        done(connection, 300)

    # Eight ran when it was set; as soon as those are done there are never more than two.
    counts = connection.execute(
        "SELECT running FROM seen WHERE at > %s ORDER BY at", [set_at]
    ).fetchall()
    after = [count for (count,) in counts][16:]
    assert after
    assert max(after) <= 2


def test_a_worker_removes_the_permits_of_lanes_that_came_once(
    database: str, connection: psycopg.Connection
) -> None:
    app = Relevo()

    @app.job("crm.push", limits=[Limit(1, per="lane")])
    def push(_ctx: Context) -> None:
        """Nothing to do."""

    with connection.transaction():
        push.enqueue_many(connection, [{}] * 3, lane_keys=["a", "b", "c"])
    with running(app, database):
        done(connection, 3)
    connection.rollback()
    given = value(connection, "SELECT count(*) FROM relevo.permits")
    connection.execute("UPDATE relevo.permits SET taken_at = now() - interval '2 hours'")
    connection.commit()

    with running(app, database):
        wait_until(
            lambda: (
                connection.rollback()
                or not value(connection, "SELECT count(*) FROM relevo.permits")
            ),
            what="no permits",
        )

    assert given == 3
