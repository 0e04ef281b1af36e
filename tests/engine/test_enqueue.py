"""An enqueue belongs to its caller's transaction, and says what becomes of its job."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from factories import a_tenant, a_worker, job_row, value
from relevo import DEFAULT_TENANT, Context, Enqueued, KeyMode, Relevo
from relevo.db.drivers import NotInTransaction
from relevo.model.errors import InvalidOption, PayloadMismatch, TenantRequired
from workers import query

app = Relevo()


@app.job("test.work", queue="default", max_attempts=4, priority=1)
async def work(ctx: Context, order: UUID | None = None, note: str = "") -> None:
    """Nothing."""


def count(dsn: str) -> int:
    return query(dsn, "SELECT count(*) FROM relevo.jobs")[0][0]


def test_a_committed_enqueue_is_a_job_with_its_kinds_rules(database: str) -> None:
    order = uuid4()
    with psycopg.connect(database) as connection:
        answer = work.enqueue(connection, order, note="café")

        row = job_row(connection, answer.id)

    assert answer.created
    assert row["payload"] == {"order": str(order), "note": "café"}
    assert (row["queue"], row["kind"], row["max_attempts"], row["priority"]) == (
        "default",
        "test.work",
        4,
        1,
    )
    assert (row["state"], row["attempt"], row["live"]) == ("available", 0, True)
    assert row["tenant_id"] == DEFAULT_TENANT
    assert count(database) == 1


def test_an_enqueue_that_is_rolled_back_leaves_nothing(database: str) -> None:
    with psycopg.connect(database) as connection:
        work.enqueue(connection)
        connection.rollback()

    assert count(database) == 0


def test_a_savepoint_that_is_rolled_back_takes_its_job_along(database: str) -> None:
    with psycopg.connect(database) as connection:
        kept = work.enqueue(connection, note="kept")
        with connection.transaction(force_rollback=True):
            work.enqueue(connection, note="gone")

    assert query(database, "SELECT id FROM relevo.jobs") == [(kept.id,)]


def test_an_outer_roll_back_takes_what_an_inner_savepoint_released(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("SELECT")
        with connection.transaction():
            work.enqueue(connection)
        connection.rollback()

    assert count(database) == 0


def test_an_enqueue_on_a_connection_that_commits_by_itself_is_its_own_transaction(
    database: str,
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        work.enqueue(connection)

        assert count(database) == 1


def test_an_enqueue_without_a_key_is_one_statement() -> None:
    """Red when the wake-up becomes a second one: it would be a second trip and a second commit."""
    operation = work.enqueuing(note="one")

    call = next(operation)

    assert call.statement.name == "insert_job"
    assert not call.needs_transaction
    with pytest.raises(StopIteration) as ended:
        operation.send([(7, False)])
    assert ended.value.value == Enqueued(7, created=True)


def test_a_keyed_enqueue_outside_a_transaction_is_refused_and_leaves_nothing(
    database: str,
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(NotInTransaction):
            work.with_options(key="k").enqueue(connection)

        assert count(database) == 0


async def test_the_same_call_is_awaited_on_an_asynchronous_connection(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        answer = await work.enqueue(connection, note="async")

    assert query(database, "SELECT payload->>'note' FROM relevo.jobs WHERE id = %s", answer.id) == [
        ("async",)
    ]


def test_options_reach_the_row(connection: psycopg.Connection) -> None:
    at = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
    asked = work.with_options(
        aggregate_id="cycle-1",
        available_at=at,
        delay=timedelta(hours=1),
        priority=3,
        max_attempts=1,
        queue="slow",
        actor="ada",
        headers={"traceparent": "00-1"},
    )

    row = job_row(connection, asked.enqueue(connection).id)

    assert row["available_at"] == at + timedelta(hours=1)
    assert (row["queue"], row["priority"], row["max_attempts"]) == ("slow", 3, 1)
    assert (row["aggregate_id"], row["actor"]) == ("cycle-1", "ada")
    assert row["headers"] == {"traceparent": "00-1"}


def test_a_delay_counts_from_the_databases_clock(connection: psycopg.Connection) -> None:
    answer = work.with_options(delay=timedelta(seconds=90)).enqueue(connection)

    row = job_row(connection, answer.id)

    assert row["available_at"] - row["created_at"] == timedelta(seconds=90)


def test_priority_zero_is_not_taken_for_no_priority(connection: psycopg.Connection) -> None:
    answer = work.with_options(priority=0).enqueue(connection)

    assert job_row(connection, answer.id)["priority"] == 0


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 4},
        {"priority": -1},
        {"priority": True},
        {"max_attempts": 0},
        {"max_attempts": 1_000_001},
        {"queue": "No Spaces"},
        {"queue": ""},
        {"key": ""},
        {"key": "k" * 513},
        {"key": "a\0b"},
        {"key": "half \ud800"},
        {"aggregate_id": "a\0b"},
        {"actor": "a\0b"},
        {"key": "k", "key_for": timedelta(0)},
        {"key": "k", "key_mode": KeyMode.LIVE, "key_for": timedelta(hours=1)},
        {"available_at": datetime(2030, 1, 1)},  # noqa: DTZ001 -- the missing zone is refused
        {"delay": timedelta(seconds=-1)},
        {"delay": timedelta.max},
        {"key": "k", "key_for": timedelta.max},
        {"headers": {"traceparent": "x" * 9000}},
        {"headers": {"traceparent": "a\0b"}},
        {"headers": {"a\0b": "x"}},
        {"headers": {"at": float("nan")}},
        {"headers": {"x": "half \ud800"}},
        {"headers": "x"},
        {"headers": None},
        {"tenant_id": "acme"},
        {"aggregate_id": 5},
        {"key": 5},
        {"key": "k", "key_mode": "live_key"},
        {"key": "k", "key_for": 5},
        {"available_at": "now"},
        {"available_at": date(2030, 1, 1)},
        {"delay": 5},
        {"delay": None},
        {"priority": "1"},
        {"max_attempts": "3"},
        {"queue": 5},
        {"actor": 5},
        {"lane_key": 5},
        {"nope": 1},
    ],
    ids=str,
)
def test_an_option_that_makes_no_sense_is_refused_before_any_sql(options: dict) -> None:
    with pytest.raises(InvalidOption):
        work.with_options(**options)


def test_an_option_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidOption, match=r"'nope'.* pass one of tenant_id, .*, headers"):
        work.with_options(nope="secret")


def test_an_expiry_without_a_key_is_refused_before_any_sql(connection: psycopg.Connection) -> None:
    with pytest.raises(InvalidOption, match="no key"):
        work.with_options(key_for=timedelta(hours=1)).enqueue(connection)


def test_each_enqueue_of_one_kind_has_its_own_payload(connection: psycopg.Connection) -> None:
    about = work.with_options(aggregate_id="cycle-1")

    ids = [about.enqueue(connection, note=note).id for note in ("a", "b", "a")]

    rows = [job_row(connection, job_id) for job_id in ids]
    assert [row["payload"]["note"] for row in rows] == ["a", "b", "a"]
    assert {row["aggregate_id"] for row in rows} == {"cycle-1"}


def test_arguments_that_the_handler_does_not_take_are_refused_before_any_sql(
    connection: psycopg.Connection,
) -> None:
    with pytest.raises(PayloadMismatch):
        work.enqueue(connection, nothing=1)
    with pytest.raises(PayloadMismatch):
        work.enqueue(connection, uuid4(), order=uuid4())
    with pytest.raises(PayloadMismatch):
        work.enqueue(connection, None, "", 3)

    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0


def test_an_application_with_one_tenant_never_mentions_it(connection: psycopg.Connection) -> None:
    row = job_row(connection, work.enqueue(connection).id)

    assert row["tenant_id"] == DEFAULT_TENANT


def test_an_application_with_several_tenants_refuses_a_job_for_none(
    connection: psycopg.Connection,
) -> None:
    many = Relevo(tenants="multi")

    @many.job("test.work")
    def handler(ctx: Context) -> None:
        """Nothing."""

    tenant = a_tenant(connection)

    with pytest.raises(TenantRequired, match=r"'test\.work' was enqueued for none"):
        handler.enqueue(connection)
    answer = handler.with_options(tenant_id=tenant).enqueue(connection)
    assert job_row(connection, answer.id)["tenant_id"] == tenant


def test_a_job_of_a_tenant_that_does_not_exist_is_refused_by_the_database(
    connection: psycopg.Connection,
) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        work.with_options(tenant_id=uuid4()).enqueue(connection)


# --- wake-ups


@pytest.mark.parametrize("idle", [True, False])
def test_a_worker_is_told_on_commit_only_if_it_wants_to_be(database: str, *, idle: bool) -> None:
    with (
        psycopg.connect(database, autocommit=True) as listener,
        psycopg.connect(database) as caller,
    ):
        a_worker(caller, idle=idle)
        caller.commit()
        listener.execute("LISTEN relevo")
        work.enqueue(caller)
        work.enqueue(caller)
        early = list(listener.notifies(timeout=0.1))

        caller.commit()

        heard = list(listener.notifies(timeout=5 if idle else 0.2, stop_after=1))
    assert early == []
    assert [note.payload for note in heard] == (["default"] if idle else [])


def test_nobody_is_woken_for_a_job_of_the_future_or_of_another_queue(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as listener,
        psycopg.connect(database) as caller,
    ):
        a_worker(caller, idle=True)
        listener.execute("LISTEN relevo")

        work.with_options(delay=timedelta(minutes=1)).enqueue(caller)
        work.with_options(queue="another").enqueue(caller)
        caller.commit()

        assert list(listener.notifies(timeout=0.2)) == []
