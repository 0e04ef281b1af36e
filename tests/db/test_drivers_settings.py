"""The caller's own settings neither change an operation's rows nor are changed by it."""

from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import psycopg
import pytest
from django.test import override_settings
from driver_kinds import (
    OnDjango,
    OnDjangoPsycopg2,
    asyncpg_places,
    configure_django,
    places,
)
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from psycopg.types.array import ListDumper
from sqlalchemy import NullPool, create_engine

from relevo.db.drivers import NotInTransaction, run, run_async
from relevo.db.operation import Call, Operation, Rows
from relevo.db.statements import Statement

VALUES = Call(
    Statement(
        "select_values",
        "SELECT %(one)s::uuid, %(payload)s::text::jsonb::text, now(), '100%%'",
    ),
    {"one": UUID(int=1), "payload": '{"a": 1}'},
    needs_transaction=True,
)
LISTS = Call(
    Statement("select_lists", "SELECT %(texts)s::text[], %(numbers)s::bigint[]"),
    {
        "texts": ['{"a": "b\\\\"}', "", "NULL", None, "caf\u00e9, {}"],
        "numbers": [1, -(2**40), None],
    },
)
UNTYPED = Call(
    Statement("select_untyped", "SELECT %(empty)s::uuid[], %(nothing)s::bigint[]"),
    {"empty": [], "nothing": [None, None]},
)
CREATE = Call(Statement("create_table", "CREATE TABLE scratch (tag text UNIQUE)"))
INSERT = Call(Statement("insert_tag", "INSERT INTO scratch VALUES ('one') RETURNING tag"))


def work(*calls: Call) -> Operation[Rows]:
    rows: Rows = ()
    for call in calls:
        rows = yield call
    return rows


def is_as_expected(rows: Rows) -> bool:
    (row,) = rows
    one, payload, moment, percent = row
    return (
        type(row) is tuple
        and one == UUID(int=1)
        and payload == '{"a": 1}'
        and isinstance(moment, datetime)
        and moment.utcoffset() is not None
        and percent == "100%"
    )


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row, scalar_row])
@pytest.mark.parametrize("cursor", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
def test_psycopg_factories_do_not_reach_the_rows_and_stay(
    empty_database: str, factory: Any, cursor: Any
) -> None:
    with psycopg.connect(
        empty_database, row_factory=factory, cursor_factory=cursor, prepare_threshold=None
    ) as connection:
        assert is_as_expected(run(connection, work(VALUES)))

        assert connection.row_factory is factory
        assert connection.cursor_factory is cursor
        assert connection.prepare_threshold is None


class Refusing(ListDumper):
    """Writes no list as text."""

    def dump(self, obj: list[Any]) -> bytes:
        raise AssertionError(obj)


def test_psycopg_lists_are_not_quoted_and_the_callers_way_to_write_them_stays(
    empty_database: str,
) -> None:
    """Red when lists go as text: quoting each element is most of what a large batch costs."""
    with psycopg.connect(empty_database) as connection:
        connection.adapters.register_dumper(list, Refusing)

        rows = run(connection, work(LISTS))

        assert rows == [(LISTS.params["texts"], LISTS.params["numbers"])]
        with pytest.raises(AssertionError):
            connection.execute("SELECT %s::text[]", [["a"]])


def test_psycopg_lists_without_a_type_of_their_own_take_the_statements(
    empty_database: str,
) -> None:
    with psycopg.connect(empty_database) as connection:
        assert run(connection, work(UNTYPED)) == [([], [None, None])]


def test_a_psycopg_pipeline_gets_its_rows_too(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection, connection.pipeline():
        assert is_as_expected(run(connection, work(CREATE, INSERT, VALUES)))


async def test_an_asynchronous_psycopg_pipeline_gets_its_rows_too(empty_database: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(empty_database) as connection,
        connection.pipeline(),
    ):
        assert is_as_expected(await run_async(connection, work(CREATE, INSERT, VALUES)))


def test_a_psycopg_pipeline_that_commits_by_itself_is_refused(empty_database: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection, connection.pipeline():
        connection.execute("SELECT 1")  # under way: the connection is no longer idle

        with pytest.raises(NotInTransaction):
            run(connection, work(VALUES))
        with connection.transaction():
            assert is_as_expected(run(connection, work(VALUES)))


async def test_an_asynchronous_pipeline_that_commits_by_itself_is_refused(
    empty_database: str,
) -> None:
    connect = psycopg.AsyncConnection.connect
    async with (
        await connect(empty_database, autocommit=True) as connection,
        connection.pipeline(),
    ):
        await connection.execute("SELECT 1")

        with pytest.raises(NotInTransaction):
            await run_async(connection, work(VALUES))
        async with connection.transaction():
            assert is_as_expected(await run_async(connection, work(VALUES)))


@pytest.mark.parametrize("opening", ["BEGIN", "START TRANSACTION ISOLATION LEVEL SERIALIZABLE"])
def test_a_transaction_opened_by_hand_is_a_transaction(empty_database: str, opening: str) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(opening)

        assert is_as_expected(run(connection, work(VALUES)))


async def test_an_asyncpg_transaction_opened_by_hand_is_a_transaction(empty_database: str) -> None:
    connection = await asyncpg.connect(**asyncpg_places(empty_database))
    await connection.execute("BEGIN")

    assert is_as_expected(await run_async(connection, work(VALUES)))

    await connection.close()


async def test_an_asyncpg_codec_for_jsonb_stays_and_does_not_touch_the_rows(
    empty_database: str,
) -> None:
    connection = await asyncpg.connect(**asyncpg_places(empty_database))
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=lambda value: value, decoder=lambda value: "mine"
    )

    async with connection.transaction():
        assert is_as_expected(await run_async(connection, work(VALUES)))

    assert await connection.fetchval("""SELECT '{}'::jsonb""") == "mine"
    await connection.close()


async def test_an_asyncpg_uuid_serves_wherever_a_uuid_does(empty_database: str) -> None:
    connection = await asyncpg.connect(**asyncpg_places(empty_database))
    async with connection.transaction():
        rows = await run_async(connection, work(VALUES))
    await connection.close()
    found, expected = rows[0][0], UUID(int=1)

    assert isinstance(found, UUID)
    assert found == expected
    assert expected == found
    assert hash(found) == hash(expected)
    assert sorted([UUID(int=2), found]) == [expected, UUID(int=2)]
    assert msgspec.json.encode(found) == msgspec.json.encode(expected)
    assert msgspec.convert(found, UUID) == expected
    with psycopg.connect(empty_database) as other:
        assert other.execute("SELECT %s::uuid", [found]).fetchone() == (expected,)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_sqlalchemy_options_for_reading_do_not_reach_the_rows_and_stay(
    empty_database: str, driver: str
) -> None:
    options = {"stream_results": True, "no_parameters": True, "yield_per": 10}
    engine = create_engine(
        f"postgresql+{driver}://", connect_args=places(empty_database), poolclass=NullPool
    )

    with engine.connect().execution_options(**options) as connection:
        assert run(connection, work(CREATE, INSERT)) == [("one",)]
        assert is_as_expected(run(connection, work(VALUES)))
        assert connection.get_execution_options() == options

    engine.dispose()


@pytest.mark.parametrize("kind", [OnDjango, OnDjangoPsycopg2], ids=["psycopg", "psycopg2"])
def test_django_without_zones_still_answers_timestamps_with_zone(
    empty_database: str, kind: type[OnDjango]
) -> None:
    configure_django()  # there are no settings to override before

    with (
        override_settings(USE_TZ=False),
        closing(kind(empty_database, autocommit=False)) as adapter,
    ):
        adapter.begin()

        rows = adapter.run(work(VALUES))
        with adapter.connection.cursor() as cursor:
            cursor.execute("SELECT now()")
            (own,) = cursor.fetchone()

        assert is_as_expected(rows)
        assert own.tzinfo is None
        assert abs(rows[0][2] - datetime.now(UTC)).total_seconds() < 60


def test_the_django_backends_of_this_suite_are_the_two_that_they_claim_to_be(
    empty_database: str,
) -> None:
    for kind, module in ((OnDjango, "psycopg"), (OnDjangoPsycopg2, "psycopg2")):
        with closing(kind(empty_database, autocommit=False)) as adapter:
            adapter.begin()
            with adapter.connection.cursor() as cursor:
                assert type(cursor.connection).__module__.split(".")[0] == module
