"""F-036 and F-037: concurrent enqueues with one key.

Mechanism of F-036: ON CONFLICT DO NOTHING waits for the holder's transaction; the loser never
assumes how it will end. Mechanism of F-037: a refused insert looks for the holder in a
statement of its own, which sees what was committed meanwhile, and tries again where it ended.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from factories import a_job, value
from limiting import ENGINES_LEVEL
from relevo import Call, Context, Enqueued, KeyMode, Relevo, Rows
from relevo.db.operation import drive
from workers import query, scaled, wait_until

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

CALLERS = 50
ROUNDS = scaled(5, 100)

app = Relevo()


@app.job("test.work")
async def work(ctx: Context) -> None:
    """Nothing."""


def is_blocked(dsn: str, pid: int) -> bool:
    return bool(
        query(dsn, "SELECT 1 WHERE cardinality(pg_blocking_pids(%s)) > 0", pid),
    )


@pytest.mark.parametrize("mode", list(KeyMode))
def test_f036_who_waited_for_a_holder_that_rolled_back_makes_the_job(
    database: str, mode: KeyMode
) -> None:
    keyed = work.with_options(key="k", key_mode=mode)
    answers: list[Enqueued] = []
    with (
        psycopg.connect(database, options=ENGINES_LEVEL) as first,
        psycopg.connect(database, options=ENGINES_LEVEL) as second,
    ):
        keyed.enqueue(first)
        waiting = threading.Thread(target=lambda: answers.append(keyed.enqueue(second)))
        waiting.start()
        wait_until(lambda: is_blocked(database, second.info.backend_pid))

        first.rollback()

        waiting.join(10)
        second.commit()
    assert answers[0].created
    assert query(database, "SELECT id FROM relevo.jobs") == [(answers[0].id,)]


def test_f036_who_waited_for_a_holder_that_committed_is_answered_with_it(database: str) -> None:
    keyed = work.with_options(key="k")
    answers: list[Enqueued] = []
    with (
        psycopg.connect(database, options=ENGINES_LEVEL) as first,
        psycopg.connect(database, options=ENGINES_LEVEL) as second,
    ):
        held = keyed.enqueue(first)
        waiting = threading.Thread(target=lambda: answers.append(keyed.enqueue(second)))
        waiting.start()
        wait_until(lambda: is_blocked(database, second.info.backend_pid))

        first.commit()

        waiting.join(10)
        second.commit()
    assert answers == [Enqueued(held.id, created=False)]


def test_f036_a_batch_waits_for_a_holder_as_well(database: str) -> None:
    answers: list[list[Enqueued]] = []
    with (
        psycopg.connect(database, options=ENGINES_LEVEL) as first,
        psycopg.connect(database, options=ENGINES_LEVEL) as second,
    ):
        work.with_options(key="b").enqueue(first)
        waiting = threading.Thread(
            target=lambda: answers.append(work.enqueue_many(second, [{}] * 3, keys=["a", "b", "c"]))
        )
        waiting.start()
        wait_until(lambda: is_blocked(database, second.info.backend_pid))

        first.rollback()

        waiting.join(10)
        second.commit()
    assert [answer.created for answer in answers[0]] == [True, True, True]


def test_two_batches_with_the_same_keys_in_another_order_do_not_deadlock(database: str) -> None:
    """Red when the keys are inserted in the order of the input."""
    keys = [f"k{place}" for place in range(200)]
    barrier = threading.Barrier(2)

    def enqueue(order: list[str]) -> int:
        made = 0
        for round_ in range(scaled(5, 50)):
            with psycopg.connect(database, options=ENGINES_LEVEL) as connection:
                barrier.wait(20)
                asked = [f"{round_}-{key}" for key in order]
                answers = work.enqueue_many(connection, [{}] * len(asked), keys=asked)
                made += sum(answer.created for answer in answers)
        return made

    with ThreadPoolExecutor(2) as pool:
        made = sum(pool.map(enqueue, [keys, keys[::-1]]))

    assert made == query(database, "SELECT count(*) FROM relevo.jobs")[0][0]
    assert query(database, "SELECT count(DISTINCT key) FROM relevo.jobs") == [(made,)]


def test_f037_a_holder_that_ends_before_it_is_found_leaves_its_key_to_who_asked(
    database: str,
) -> None:
    """Red when a refused insert whose holder is gone is not tried again."""
    keyed = work.with_options(key="k", key_mode=KeyMode.LIVE)
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(database, options=ENGINES_LEVEL) as caller,
    ):
        held = a_job(owner, live_key="k")
        said: list[str] = []

        def execute(call: Call) -> Rows:
            rows = caller.execute(call.statement.sql.encode(), call.params).fetchall()
            if not said:
                owner.execute(
                    "UPDATE relevo.jobs SET state = 'completed', outcome = 'completed',"
                    " live = false, finished_at = now()"
                )
            said.append(call.statement.name)
            return rows

        answer = drive(keyed.enqueuing(), execute)
        caller.commit()

    assert said == ["insert_job", "find_key_holders", "insert_job"]
    assert answer.created
    assert answer.id != held


@pytest.fixture
def callers(database: str) -> Iterator[list[psycopg.Connection]]:
    opened = [psycopg.connect(database, options=ENGINES_LEVEL) for _ in range(CALLERS)]
    yield opened
    for connection in opened:
        connection.close()


def test_f037_of_many_at_once_one_makes_the_job_and_all_name_it(
    database: str, callers: list[psycopg.Connection]
) -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        for round_ in range(ROUNDS):
            keyed = work.with_options(key=f"k{round_}")
            barrier = threading.Barrier(CALLERS)

            def ask(connection: psycopg.Connection, keyed=keyed, barrier=barrier) -> Enqueued:
                barrier.wait(20)
                answer = keyed.enqueue(connection)
                connection.commit()
                return answer

            answers = list(pool.map(ask, callers))

            assert sum(answer.created for answer in answers) == 1
            assert len({answer.id for answer in answers}) == 1
            assert answers[0].id is not None
    with psycopg.connect(database, options=ENGINES_LEVEL) as connection:
        assert value(connection, "SELECT count(*) FROM relevo.jobs") == ROUNDS
