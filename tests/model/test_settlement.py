"""What becomes of a job, decided from what its handler answered."""

from datetime import timedelta
from random import Random

import psycopg
import pytest

from factories import a_claim, a_kind
from relevo import DELIVERY, Cancel, Fail, Outage, PermanentError, Retry, Snooze
from relevo.model.errors import PayloadMismatch
from relevo.model.settlement import (
    Action,
    Settlement,
    refuse_payload,
    release,
    settle_answer,
    settle_cancelled,
    settle_error,
    settle_timeout,
)

RANDOM = Random(1)  # noqa: S311 -- a seed makes the test repeatable
MINUTE = timedelta(minutes=1)


def answered(answer: object, **job: object) -> Settlement:
    return settle_answer(a_kind(retry=DELIVERY), a_claim(**job), answer, RANDOM)


def test_nothing_is_a_success_without_a_result() -> None:
    decided = answered(None)

    assert (decided.action, decided.result, decided.error) == (Action.COMPLETED, None, None)


@pytest.mark.parametrize(
    ("value", "text"), [({"n": 1}, '{"n":1}'), (0, "0"), ("", '""'), ([], "[]"), (False, "false")]
)
def test_a_value_is_a_success_with_a_result(value: object, text: str) -> None:
    decided = answered(value)

    assert (decided.action, decided.result) == (Action.COMPLETED, text)


def test_a_nul_in_a_result_is_replaced() -> None:
    assert answered({"t": "a\0b", "\0": ["\0"]}).result == '{"t":"a\ufffdb","\ufffd":["\ufffd"]}'


@pytest.mark.parametrize(
    "value",
    [float("nan"), {"x": [float("inf")]}, object(), "x" * 300_000, "half \ud800", lambda: 1],
    ids=lambda value: type(value).__name__,
)
def test_a_result_that_cannot_be_stored_is_said_and_the_job_is_done(value: object) -> None:
    decided = answered(value)

    assert (decided.action, decided.result) == (Action.COMPLETED, None)
    assert "could not be stored" in (decided.error or "")


def test_a_retry_waits_by_the_rule_or_as_long_as_it_says() -> None:
    assert answered(Retry(), attempt=3).delay == timedelta(seconds=80)
    assert answered(Retry(MINUTE, "busy")) == Settlement(
        a_claim().tenant_id,
        1,
        1,
        Action.RETRIED,
        delay=MINUTE,
        error="busy",
        keep=timedelta(days=30).total_seconds(),
    )


def test_excused_starts_do_not_lengthen_the_wait() -> None:
    assert answered(Retry(), attempt=7, excused=6).delay == timedelta(seconds=20)


def test_a_snooze_waits_and_says_why_if_there_is_a_reason() -> None:
    assert (answered(Snooze(MINUTE)).action, answered(Snooze(MINUTE)).error) == (
        Action.SNOOZED,
        None,
    )
    assert answered(Snooze(MINUTE, "too early")).error == "too early"


def test_an_outage_releases_the_job_and_pauses_its_queue() -> None:
    decided = answered(Outage("mail server down", MINUTE))

    assert (decided.action, decided.pause, decided.delay) == (
        Action.RELEASED,
        MINUTE,
        timedelta(0),
    )


@pytest.mark.parametrize("wait", [timedelta(0), -MINUTE])
def test_an_outage_always_pauses_for_a_moment(wait: timedelta) -> None:
    """It spends no attempt, so without a pause its job would start again for ever."""
    assert answered(Outage("down", wait)).pause == timedelta(seconds=1)


def test_an_outage_without_end_is_a_pause_that_a_row_can_hold() -> None:
    assert answered(Outage("down", timedelta.max)).pause == timedelta(days=365)


@pytest.mark.parametrize(
    ("answer", "action"), [(Fail("no"), Action.FAILED), (Cancel("no"), Action.CANCELLED)]
)
def test_an_end_is_an_end(answer: object, action: Action) -> None:
    decided = answered(answer)

    assert (decided.action, decided.error) == (action, "no")


def test_a_negative_wait_is_no_wait() -> None:
    assert answered(Snooze(-MINUTE)).delay == timedelta(0)


def test_a_reason_is_made_fit_for_a_row() -> None:
    decided = answered(Fail("a\0b" + "x" * 100_000))

    assert decided.error is not None
    assert len(decided.error.encode()) <= 8192
    assert decided.error.startswith("a\ufffdb")


def test_an_exception_is_retried_by_the_rule_of_its_kind() -> None:
    decided = settle_error(a_kind(retry=DELIVERY), a_claim(attempt=2), ValueError("x"), RANDOM)

    assert (decided.action, decided.delay) == (Action.RETRIED, timedelta(seconds=40))
    assert decided.error == "ValueError: x"
    assert (decided.trace or "").startswith("ValueError: x")


def test_a_permanent_error_or_a_subclass_ends_the_job_at_once() -> None:
    class NoSuchPerson(PermanentError):
        """Somebody left."""

    decided = settle_error(a_kind(), a_claim(), NoSuchPerson("gone"), RANDOM)

    assert (decided.action, decided.error) == (Action.FAILED, "NoSuchPerson: gone")


def test_a_time_out_says_how_long_it_was() -> None:
    decided = settle_timeout(a_kind(timeout=timedelta(seconds=1.5)), a_claim(), RANDOM)

    assert (decided.action, decided.error) == (Action.RETRIED, "timed out after 1.5 s")


def test_a_cancelled_handler_is_a_failed_start() -> None:
    decided = settle_cancelled(a_kind(), a_claim(), RANDOM)

    assert (decided.action, decided.error) == (Action.RETRIED, "cancelled inside handler")


def test_a_job_that_is_handed_back_waits_for_nothing() -> None:
    decided = release(a_kind(), a_claim(), "the worker stopped")

    assert (decided.action, decided.delay) == (Action.RELEASED, timedelta(0))


@pytest.mark.parametrize("payload", ["[1]", '"s"', "0", "null", " 1"])
def test_a_payload_that_is_no_object_ends_the_job(payload: str) -> None:
    error = PayloadMismatch(kind="test.work", why="expected `object`")

    decided = refuse_payload(a_kind(), a_claim(payload=payload), error, RANDOM)

    assert decided.action is Action.FAILED
    assert "does not fit" in (decided.error or "")


def test_an_object_that_does_not_fit_may_fit_the_next_release() -> None:
    error = PayloadMismatch(kind="test.work", why="unknown field")

    assert refuse_payload(a_kind(), a_claim(), error, RANDOM).action is Action.RETRIED


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.DiskFull("no space left"),
        psycopg.errors.OutOfMemory("no memory left"),
        psycopg.errors.TooManyConnections("too many clients"),
        psycopg.errors.ReadOnlySqlTransaction("read-only"),
        psycopg.errors.CannotConnectNow("starting up"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_database_without_room_is_not_the_jobs_fault(error: psycopg.Error) -> None:
    """Red when the job pays for it with one of its attempts."""
    decided = settle_error(a_kind(retry=DELIVERY), a_claim(attempt=2), error, RANDOM)

    assert decided.action is Action.RELEASED
    assert decided.delay > timedelta(0)
    assert str(error) in (decided.error or "")


def test_a_handler_that_fills_the_disk_itself_comes_to_an_end() -> None:
    """Red when it may start for ever: as often as its attempts it is excused, then it pays."""
    job = a_claim(attempt=6, excused=5, max_attempts=5)

    decided = settle_error(a_kind(), job, psycopg.errors.DiskFull("no space left"), RANDOM)

    assert decided.action is Action.RETRIED


def test_a_connection_that_was_cut_under_a_handler_is_charged() -> None:
    """Perhaps the job ends its own backend; red when that may go on for ever."""
    error = psycopg.errors.AdminShutdown("terminated")

    assert settle_error(a_kind(), a_claim(), error, RANDOM).action is Action.RETRIED
