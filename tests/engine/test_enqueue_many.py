"""Many jobs in one statement: each answered in its place, duplicates told from the new."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from factories import a_job, a_worker, value
from relevo import Context, Enqueued, KeyMode, Relevo
from relevo.db.drivers import NotInTransaction
from relevo.model.errors import InvalidOption, PayloadError
from workers import query

app = Relevo()


@app.job("test.work")
async def work(ctx: Context, number: int) -> None:
    """Nothing."""


def numbers(amount: int) -> list[dict[str, object]]:
    return [{"number": number} for number in range(amount)]


def test_answers_come_in_the_order_of_the_input(connection: psycopg.Connection) -> None:
    answers = work.enqueue_many(connection, numbers(100))

    found = connection.execute("SELECT id, (payload->>'number')::int FROM relevo.jobs").fetchall()
    assert all(answer.created for answer in answers)
    assert dict(found) == {answer.id: place for place, answer in enumerate(answers)}


def test_a_duplicate_inside_the_batch_is_answered_with_the_one_that_was_made(
    connection: psycopg.Connection,
) -> None:
    answers = work.enqueue_many(connection, numbers(4), keys=["a", "b", "a", None])

    assert [answer.created for answer in answers] == [True, True, False, True]
    assert answers[2].id == answers[0].id
    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 3


@pytest.mark.parametrize("mode", list(KeyMode))
def test_a_key_that_somebody_holds_is_answered_with_the_holder(
    connection: psycopg.Connection, mode: KeyMode
) -> None:
    holder = a_job(connection, **{mode.value: "b"})

    answers = work.with_options(key_mode=mode).enqueue_many(
        connection, numbers(3), keys=["a", "b", "c"]
    )

    assert answers[1] == Enqueued(holder, created=False)
    assert [answer.created for answer in answers] == [True, False, True]


def test_expired_keys_are_freed_first(connection: psycopg.Connection) -> None:
    for_an_hour = work.with_options(key_for=timedelta(hours=1))
    first = for_an_hour.enqueue_many(connection, numbers(2), keys=["a", "b"])
    connection.execute(
        "UPDATE relevo.jobs SET key_expires_at = now() - interval '1 second' WHERE key = 'a'"
    )

    second = for_an_hour.enqueue_many(connection, numbers(2), keys=["a", "b"])

    assert second[0].created
    assert second[1] == Enqueued(first[1].id, created=False)


def test_where_an_index_of_the_application_refused_the_id_is_none(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE UNIQUE INDEX mine ON relevo.jobs (aggregate_id)")

    answers = work.enqueue_many(connection, numbers(3), aggregate_ids=["x", "y", "x"])

    assert [answer.created for answer in answers] == [True, True, False]
    assert answers[2] == Enqueued(None, created=False)


def test_what_no_list_is_given_for_is_as_the_options_say(connection: psycopg.Connection) -> None:
    about = work.with_options(aggregate_id="cycle-1", key="k")

    answers = about.enqueue_many(connection, numbers(2))

    found = connection.execute("SELECT id, aggregate_id, key FROM relevo.jobs").fetchall()
    assert found == [(answers[0].id, "cycle-1", "k")]
    assert answers[1] == Enqueued(answers[0].id, created=False)


def test_a_list_stands_for_the_option_also_where_it_says_none(
    connection: psycopg.Connection,
) -> None:
    about = work.with_options(aggregate_id="cycle-1", key="k")

    about.enqueue_many(connection, numbers(2), aggregate_ids=[None, "x"], keys=[None, None])

    found = connection.execute("SELECT aggregate_id, key FROM relevo.jobs").fetchall()
    assert set(found) == {("x", None), (None, None)}


def test_one_bad_payload_refuses_all_before_any_sql(connection: psycopg.Connection) -> None:
    with pytest.raises(PayloadError):
        work.enqueue_many(connection, [{"number": 1}, {"number": float("nan")}])

    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0


@pytest.mark.parametrize("key", ["", "k" * 5000, "a\0b", 5])
def test_a_key_that_makes_no_sense_is_refused_before_any_sql(
    connection: psycopg.Connection, key: Any
) -> None:
    with pytest.raises(InvalidOption):
        work.enqueue_many(connection, numbers(1), keys=[key])

    assert value(connection, "SELECT count(*) FROM relevo.jobs") == 0


@pytest.mark.parametrize("option", ["keys", "aggregate_ids"])
def test_as_many_keys_and_aggregates_as_payloads_are_asked_for(
    connection: psycopg.Connection, option: str
) -> None:
    with pytest.raises(InvalidOption, match="2 payloads"):
        work.enqueue_many(connection, numbers(2), **{option: ["only one"]})


@pytest.mark.parametrize("option", ["keys", "aggregate_ids", "lane_keys"])
@pytest.mark.parametrize("values", ["ab", 5])
def test_one_value_is_not_taken_for_one_each(
    connection: psycopg.Connection, option: str, values: Any
) -> None:
    """Red when a text is taken for its letters: two jobs would have the keys a and b."""
    lists: dict[str, Any] = {option: values}

    with pytest.raises(InvalidOption, match="put it in a list"):
        work.enqueue_many(connection, numbers(2), **lists)


def test_nothing_is_nothing(connection: psycopg.Connection) -> None:
    assert work.enqueue_many(connection, []) == []


def test_many_jobs_outside_a_transaction_are_refused(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(NotInTransaction),
    ):
        work.enqueue_many(connection, numbers(2))


def test_rolled_back_together(database: str) -> None:
    with psycopg.connect(database) as connection:
        work.enqueue_many(connection, numbers(1000))
        connection.rollback()

    assert query(database, "SELECT count(*) FROM relevo.jobs") == [(0,)]


def test_one_wake_up_serves_the_whole_batch(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as listener,
        psycopg.connect(database) as caller,
    ):
        a_worker(caller, idle=True)
        listener.execute("LISTEN relevo")

        work.enqueue_many(caller, numbers(50))
        caller.commit()

        heard = list(listener.notifies(timeout=0.3))
    assert [note.payload for note in heard] == ["default"]


def test_ten_thousand_jobs_are_a_few_statements(connection: psycopg.Connection) -> None:
    before = value(connection, "SELECT count(*) FROM pg_prepared_statements")

    answers = work.enqueue_many(connection, numbers(10_000))

    assert before == 0
    assert len({answer.id for answer in answers}) == 10_000


async def test_many_are_awaited_on_an_asynchronous_connection(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database) as connection:
        answers = await work.enqueue_many(connection, numbers(3))

    assert len(answers) == 3
    assert query(database, "SELECT count(*) FROM relevo.jobs") == [(3,)]


def test_keys_are_met_in_one_order_whatever_the_jobs_are_about(
    connection: psycopg.Connection,
) -> None:
    """F-037. Red when the aggregate comes first: two writers of the same keys would deadlock."""
    keys = ["b", "d", "a", "c"]

    made = work.enqueue_many(connection, numbers(4), keys=keys, aggregate_ids=["1", "2", "3", "4"])

    by_id = sorted((job.id, key) for job, key in zip(made, keys, strict=True))
    assert [key for _, key in by_id] == ["a", "b", "c", "d"]
