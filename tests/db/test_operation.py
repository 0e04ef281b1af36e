"""How an operation is driven from its first call to its answer, without a database."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from relevo.db.operation import Call, Operation, Rows, drive, drive_async
from relevo.db.statements import Statement

FIRST = Call(Statement("first", "SELECT 1"))
SECOND = Call(Statement("second", "SELECT 2"))

Driver = Callable[[Operation[Any], Callable[[Call], Rows]], Any]


def drive_in_a_loop(operation: Operation[Any], execute: Callable[[Call], Rows]) -> Any:
    async def awaited(call: Call) -> Rows:
        return execute(call)

    return asyncio.run(drive_async(operation, awaited))


@pytest.fixture(params=[drive, drive_in_a_loop], ids=["drive", "drive_async"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return request.param


class Broken(Exception):
    pass


def test_the_answer_is_what_the_operation_returns(driver: Driver) -> None:
    def operation() -> Operation[list[object]]:
        first = yield FIRST
        second = yield SECOND
        return [*first, *second]

    answer = driver(operation(), lambda call: [(call.statement.name,)])

    assert answer == [("first",), ("second",)]


def test_an_operation_without_calls_answers_too(driver: Driver) -> None:
    def operation() -> Operation[str]:
        return "nothing to do"
        yield FIRST

    assert driver(operation(), lambda call: ()) == "nothing to do"


def test_an_error_is_thrown_in_at_its_call_and_passes_unchanged(driver: Driver) -> None:
    error, steps = Broken(), []

    def execute(call: Call) -> Rows:
        if call is SECOND:
            raise error
        return ()

    def operation() -> Operation[None]:
        yield FIRST
        try:
            yield SECOND
        finally:
            steps.append("left")

    with pytest.raises(Broken) as caught:
        driver(operation(), execute)

    assert caught.value is error
    assert caught.value.__context__ is None
    assert steps == ["left"]


def test_an_operation_may_answer_an_error_with_another_call(driver: Driver) -> None:
    def execute(call: Call) -> Rows:
        if call is FIRST:
            raise Broken
        return [("instead",)]

    def operation() -> Operation[object]:
        try:
            rows = yield FIRST
        except Broken:
            rows = yield SECOND
        return rows[0][0]

    assert driver(operation(), execute) == "instead"


def test_an_operation_that_raises_is_finished(driver: Driver) -> None:
    def operation() -> Operation[None]:
        yield FIRST
        raise Broken

    started = operation()
    with pytest.raises(Broken):
        driver(started, lambda call: ())

    assert started.gi_frame is None


async def test_cancellation_runs_the_finally_blocks_of_the_operation() -> None:
    reached, steps = asyncio.Event(), []

    async def execute(call: Call) -> Rows:
        reached.set()
        await asyncio.get_running_loop().create_future()
        return ()

    def operation() -> Operation[None]:
        try:
            yield FIRST
        finally:
            steps.append("left")

    driving: Awaitable[None] = drive_async(operation(), execute)
    task = asyncio.ensure_future(driving)
    await reached.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["left"]
