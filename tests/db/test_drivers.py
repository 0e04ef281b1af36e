"""The contract of a runner, the same on every kind of connection."""

import gc
import os
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID, uuid4

import psycopg
import pytest
from driver_kinds import KINDS, Adapter
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pooler
from relevo.db.drivers import (
    NeedsAsyncConnection,
    NeedsSyncConnection,
    NotInTransaction,
    is_async,
)
from relevo.db.operation import Call, Operation, Rows
from relevo.db.statements import parse_statements
from relevo.errors import RelevoError

STATEMENTS = parse_statements("""
-- name: insert_row
-- Writes one row and answers it, with a percent sign in a literal.
INSERT INTO public.scratch (id, tag, payload, at, names, ids, numbers, small, flag, raw, day, ratio)
VALUES (
    %(id)s::uuid,
    %(tag)s::text,
    %(payload)s::text::jsonb,
    %(at)s::timestamptz,
    %(names)s::text[],
    %(ids)s::uuid[],
    %(numbers)s::bigint[],
    %(small)s::smallint,
    %(flag)s::boolean,
    %(raw)s::bytea,
    %(day)s::date,
    %(ratio)s::double precision
)
RETURNING id, tag, payload::text, at, names, ids, numbers, small, flag, raw, day, ratio, '100%%';

-- name: insert_tag
-- Writes one row of which only the tag matters.
INSERT INTO public.scratch (id, tag)
VALUES (gen_random_uuid(), %(tag)s::text);

-- name: select_tags
-- Answers the tags that this transaction sees; takes no parameter.
SELECT tag
FROM public.scratch
WHERE tag NOT LIKE '%%hidden%%'
ORDER BY tag;

-- name: select_arrays
-- Answers the arrays that came in.
SELECT
    %(times)s::timestamptz[],
    %(flags)s::boolean[],
    %(raws)s::bytea[],
    %(same)s::text,
    %(same)s::text;
""")
COLUMNS = ("payload", "at", "names", "ids", "numbers", "small", "flag", "raw", "day", "ratio")
TABLE = """
    CREATE TABLE public.scratch (
        id uuid PRIMARY KEY,
        tag text UNIQUE,
        payload jsonb,
        at timestamptz,
        names text[],
        ids uuid[],
        numbers bigint[],
        small smallint,
        flag boolean,
        raw bytea,
        day date,
        ratio double precision
    )
"""


@pytest.fixture(scope="module")
def scratch(server: str) -> Iterator[str]:
    """The DSN of a database with one table, for the whole module."""
    name = sql.Identifier(f"relevo_drivers_{os.getpid()}")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        dsn = make_conninfo(server, dbname=name.as_string().strip('"'))
        with psycopg.connect(dsn) as connection:
            connection.execute(TABLE)
        yield dsn
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def observer(scratch: str) -> Iterator[psycopg.Connection]:
    """Somebody else's connection: it sees what is committed, and nothing else."""
    with psycopg.connect(scratch, autocommit=True) as connection:
        connection.execute("TRUNCATE public.scratch")
        yield connection


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def adapter(kind: str, scratch: str, observer: psycopg.Connection) -> Iterator[Adapter]:
    """A connection inside a transaction."""
    opened = KINDS[kind](pooler.caller_dsn(scratch), autocommit=False)
    try:
        opened.begin()
        yield opened
    finally:
        opened.close()


@pytest.fixture
def unprotected(kind: str, scratch: str, observer: psycopg.Connection) -> Iterator[Adapter]:
    """A connection that commits each statement by itself."""
    opened = KINDS[kind](pooler.caller_dsn(scratch), autocommit=True)
    try:
        yield opened
    finally:
        opened.close()


def committed(observer: psycopg.Connection) -> list[str]:
    return [tag for (tag,) in observer.execute("SELECT tag FROM public.scratch ORDER BY tag")]


def call(name: str, **params: object) -> Operation[Rows]:
    return (yield Call(STATEMENTS[name], params))


def insert_tag(tag: str) -> Operation[Rows]:
    return call("insert_tag", tag=tag)


def insert_two(first: str, second: str) -> Operation[list[str]]:
    yield Call(STATEMENTS["insert_tag"], {"tag": first}, needs_transaction=True)
    yield Call(STATEMENTS["insert_tag"], {"tag": second})
    rows = yield Call(STATEMENTS["select_tags"])
    return [tag for (tag,) in rows]


def a_row(**changed: object) -> dict[str, object]:
    return {"id": uuid4(), "tag": "round", **dict.fromkeys(COLUMNS), **changed}


VALUES = [
    pytest.param("payload", '{"a": [1, "ñ%", null]}', id="jsonb as text"),
    pytest.param("at", datetime(2026, 3, 29, 1, 59, 59, 123456, UTC), id="timestamp"),
    pytest.param(
        "at",
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
        id="timestamp of another zone",
    ),
    pytest.param("names", ["a", None, 'q"uo,te', "{}", "ñ", "", "%s"], id="text[]"),
    pytest.param("names", [], id="empty text[]"),
    pytest.param("names", [None], id="text[] of nothing known"),
    pytest.param("ids", [UUID(int=1), None, UUID(int=2**128 - 1)], id="uuid[]"),
    pytest.param("ids", [], id="empty uuid[]"),
    pytest.param("numbers", [2**62, -1, None, 0], id="bigint[]"),
    pytest.param("numbers", [], id="empty bigint[]"),
    pytest.param("small", -7, id="smallint"),
    pytest.param("flag", True, id="true"),
    pytest.param("flag", False, id="false"),
    pytest.param("raw", b"\x00\xff%s'\\", id="bytes"),
    pytest.param("raw", b"", id="empty bytes"),
    pytest.param("day", date(2026, 2, 28), id="date"),
    pytest.param("ratio", 0.1, id="float"),
]


@pytest.mark.core
def test_values_come_back_as_they_went_in(adapter: Adapter) -> None:
    for column, value in (case.values for case in VALUES):
        params = a_row(tag=uuid4().hex, **{column: value})

        rows = adapter.run(call("insert_row", **params))

        assert rows == [(*params.values(), "100%")], column
        assert type(rows[0]) is tuple
        for found, expected in zip(rows[0], params.values(), strict=False):
            assert isinstance(found, type(expected))


def test_timestamps_carry_their_zone(adapter: Adapter) -> None:
    moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)

    rows = adapter.run(call("insert_row", **a_row(at=moment)))

    assert rows[0][3] == moment
    assert rows[0][3].utcoffset() is not None


def test_uuids_are_equal_hashable_and_instances_of_uuid(adapter: Adapter) -> None:
    one = uuid4()

    rows = adapter.run(call("insert_row", **a_row(id=one, ids=[one])))

    assert isinstance(rows[0][0], UUID)
    assert isinstance(rows[0][5][0], UUID)
    assert {one: "found"}[rows[0][0]] == "found"
    assert {one} == set(rows[0][5])


def test_arrays_of_every_scalar_and_a_name_used_twice(adapter: Adapter) -> None:
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    params = {"times": [moment, None], "flags": [True, False], "raws": [b"\x00", b"%"]}

    rows = adapter.run(call("select_arrays", **params, same="twice"))

    assert rows == [(*params.values(), "twice", "twice")]
    assert isinstance(rows[0][2][0], bytes)
    assert rows[0][0][0].utcoffset() is not None


def test_a_statement_without_an_answer_gives_no_rows(adapter: Adapter) -> None:
    assert len(adapter.run(insert_tag("quiet"))) == 0
    assert len(adapter.run(call("select_tags"))) == 1


@pytest.mark.core
def test_commit_keeps_the_work(adapter: Adapter, observer: psycopg.Connection) -> None:
    adapter.run(insert_tag("kept"))
    before = committed(observer)

    adapter.commit()

    assert before == []
    assert committed(observer) == ["kept"]


@pytest.mark.core
def test_roll_back_leaves_nothing(adapter: Adapter, observer: psycopg.Connection) -> None:
    adapter.run(insert_two("a", "b"))

    adapter.rollback()

    assert committed(observer) == []


@pytest.mark.core
def test_savepoint_roll_back_leaves_nothing_of_the_inner_part(
    adapter: Adapter, observer: psycopg.Connection
) -> None:
    adapter.run(insert_tag("outer"))

    adapter.savepoint(insert_tag("inner"), undo=True)
    adapter.savepoint(insert_tag("second"))
    adapter.commit()

    assert committed(observer) == ["outer", "second"]


def test_an_operation_of_several_statements_sees_its_own_writes(adapter: Adapter) -> None:
    assert adapter.run(insert_two("a", "b")) == ["a", "b"]


@pytest.mark.core
def test_a_connection_that_commits_by_itself_is_refused_before_the_first_statement(
    unprotected: Adapter, observer: psycopg.Connection
) -> None:
    with pytest.raises(NotInTransaction, match="'insert_tag' needs a transaction"):
        unprotected.run(insert_two("a", "b"))

    assert committed(observer) == []


def test_the_session_stays_usable_after_a_refusal(
    unprotected: Adapter, observer: psycopg.Connection
) -> None:
    with pytest.raises(NotInTransaction):
        unprotected.run(insert_two("a", "b"))

    unprotected.run(insert_tag("alone"))

    assert committed(observer) == ["alone"]


@pytest.mark.core
def test_the_session_stays_usable_after_a_constraint_error_in_a_savepoint(
    adapter: Adapter, observer: psycopg.Connection
) -> None:
    adapter.run(insert_tag("one"))

    with pytest.raises(Exception, match="duplicate key") as refused:
        adapter.savepoint(insert_tag("one"))
    adapter.run(insert_tag("two"))
    adapter.commit()

    assert not isinstance(refused.value, RelevoError)
    assert committed(observer) == ["one", "two"]


def test_a_database_error_reaches_the_operation_and_then_the_caller_unchanged(
    adapter: Adapter,
) -> None:
    steps: list[object] = []

    def careful() -> Operation[None]:
        try:
            yield Call(STATEMENTS["insert_tag"], {"tag": "one"})
        except Exception as error:
            steps.append(error)
            raise
        finally:
            steps.append("left")

    adapter.run(insert_tag("one"))
    with pytest.raises(Exception, match="duplicate key") as refused:
        adapter.savepoint(careful())

    assert steps == [refused.value, "left"]


def test_an_operation_that_raises_is_closed_and_the_session_stays_usable(
    adapter: Adapter,
) -> None:
    steps = []

    def clumsy() -> Operation[None]:
        try:
            yield Call(STATEMENTS["insert_tag"], {"tag": "one"})
            raise LookupError("no such thing")
        finally:
            steps.append("left")

    with pytest.raises(LookupError, match="no such thing"):
        adapter.run(clumsy())

    assert steps == ["left"]
    assert adapter.run(insert_two("b", "c")) == ["b", "c", "one"]


def test_the_other_runner_refuses_with_a_clear_error(adapter: Adapter) -> None:
    expected = NeedsSyncConnection if is_async(adapter.connection) else NeedsAsyncConnection
    sentence = "must be awaited" if is_async(adapter.connection) else "would block the event loop"

    with pytest.raises(expected, match=sentence):
        adapter.run_with_the_other_runner(insert_tag("never"))

    gc.collect()  # a coroutine that nobody awaited would speak here
    assert adapter.run(call("select_tags")) == []
