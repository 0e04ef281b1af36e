"""Decide, from what a handler answered, what becomes of its job. No row is touched here."""

import inspect
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import Final
from uuid import UUID

from relevo.model.backoff import STANDARD
from relevo.model.checks import check_type
from relevo.model.errors import ResultNotStored
from relevo.model.job import ClaimedJob
from relevo.model.kind import Kind
from relevo.model.outcome import Cancel, Fail, Outage, PermanentError, Retry, Snooze
from relevo.model.payload import write_result
from relevo.model.retention import Retention
from relevo.model.text import describe_error, fit_error, trace_error

UNKNOWN_KIND_DELAY: Final = timedelta(seconds=30)
"""How long a job waits that reached a worker which does not know its kind."""


LEAST_PAUSE: Final = timedelta(seconds=1)
"""An outage spends no attempt, so without a pause its job would start again for ever."""

MOST_PAUSE: Final = timedelta(days=365)

NOT_ITS_FAULT: Final = frozenset({"25006", "53100", "53200", "53300", "57P03"})
"""SQLSTATEs of a database that is read-only, full, out of memory or connections, or starting."""

_NOT_AWAITED: Final = (
    "the handler answered something that has to be awaited, so nothing has run; "
    "declare it with async def, and the wrapper of a decorator as well"
)


class Action(StrEnum):
    """What the settle statement is asked to do; SQL decides whether a retry is spent."""

    COMPLETED = "completed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    RELEASED = "released"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is to be written when an attempt ends.

    Attributes:
        action: What happened; snoozed and released starts do not count.
        delay: How long the job waits where it goes back to the queue.
        error: The last error on the row, or None to leave it.
        trace: The longer text for the attempt's history.
        result: JSON text of a completed job's result.
        pause: For how long the job's queue is kept from being claimed.
        keep: How many seconds the row stays once it is final; None keeps it.
    """

    tenant_id: UUID
    job_id: int
    attempt: int
    action: Action
    delay: timedelta = timedelta(0)
    error: str | None = None
    trace: str | None = None
    result: str | None = None
    pause: timedelta | None = None
    keep: float | None = None


def settle_answer(  # noqa: PLR0911 -- one return for each outcome
    kind: Kind, job: ClaimedJob, answer: object, random: Random
) -> Settlement:
    """Decide by what the handler returned.

    Args:
        kind: The rules of the job's kind.
        job: The job as it was claimed.
        answer: The handler's return value: an outcome, or the job's result.
        random: Where jitter comes from.
    """
    if answer is None:
        return complete(kind, job)
    if inspect.isawaitable(answer):
        # A decorator hid a coroutine function: nothing has run, so nothing is completed.
        if inspect.iscoroutine(answer):
            answer.close()
        return settle_error(kind, job, TypeError(_NOT_AWAITED), random)
    match answer:
        case Retry(in_, reason):
            delay = _wait(kind, job, random) if in_ is None else in_
            return _back(kind, job, Action.RETRIED, delay, reason)
        case Snooze(in_, reason):
            return _back(kind, job, Action.SNOOZED, in_, reason or None)
        case Outage(reason, in_):
            pause = min(max(in_, LEAST_PAUSE), MOST_PAUSE)
            return _back(kind, job, Action.RELEASED, timedelta(0), reason, pause=pause)
        case Fail(reason):
            return _back(kind, job, Action.FAILED, timedelta(0), reason)
        case Cancel(reason):
            return _back(kind, job, Action.CANCELLED, timedelta(0), reason)
        case _:
            return _complete_with(kind, job, answer)


def settle_error(kind: Kind, job: ClaimedJob, error: BaseException, random: Random) -> Settlement:
    """Decide by what the handler raised: permanent errors end the job, others are retried.

    What a database that is full, read-only or not there yet did to a handler is not the job's
    fault and is not charged, as often as the job may start: a handler that fills the disk ends.
    """
    if _sqlstate(error) in NOT_ITS_FAULT and job.excused < job.max_attempts:
        wait = _wait(kind, job, random)
        return _back(kind, job, Action.RELEASED, wait, describe_error(error))
    permanent = isinstance(error, PermanentError)
    return Settlement(
        job.tenant_id,
        job.id,
        job.attempt,
        Action.FAILED if permanent else Action.RETRIED,
        delay=timedelta(0) if permanent else _wait(kind, job, random),
        error=describe_error(error),
        trace=trace_error(error),
        keep=kind.retention.keep(completed=False),
    )


def _sqlstate(error: BaseException) -> object:
    # SQLAlchemy and Django keep what the driver raised inside an error of their own.
    inner = getattr(error, "orig", None) or error.__cause__ or error
    return getattr(error, "sqlstate", None) or getattr(inner, "sqlstate", None)


def settle_timeout(kind: Kind, job: ClaimedJob, random: Random) -> Settlement:
    """Decide for a start that took longer than its kind allows."""
    seconds = kind.timeout.total_seconds()
    delay = _wait(kind, job, random)
    return _back(kind, job, Action.RETRIED, delay, f"timed out after {seconds:g} s")


def settle_cancelled(kind: Kind, job: ClaimedJob, random: Random) -> Settlement:
    """Decide for a handler that was cancelled by itself, not by the worker."""
    delay = _wait(kind, job, random)
    return _back(kind, job, Action.RETRIED, delay, "cancelled inside handler")


def settle_undecided(kind: Kind, job: ClaimedJob, error: BaseException) -> Settlement:
    """Decide where the rule of the kind raised: as for an error, after the standard wait."""
    return Settlement(
        job.tenant_id,
        job.id,
        job.attempt,
        Action.RETRIED,
        delay=STANDARD.delay(job.failures),
        error=describe_error(error),
        trace=trace_error(error),
        keep=kind.retention.keep(completed=False),
    )


def release(
    kind: Kind | None, job: ClaimedJob, reason: str, delay: timedelta = timedelta(0)
) -> Settlement:
    """Hand a job back without a charge: the worker stops, or does not know the kind."""
    return _back(kind, job, Action.RELEASED, delay, reason)


def complete(kind: Kind, job: ClaimedJob) -> Settlement:
    """End a job that succeeded and has nothing to say."""
    keep = kind.retention.keep(completed=True)
    return Settlement(job.tenant_id, job.id, job.attempt, Action.COMPLETED, keep=keep)


def refuse_payload(kind: Kind, job: ClaimedJob, error: BaseException, random: Random) -> Settlement:
    """Decide for a payload that the handler cannot take.

    A payload that is no object can never fit, so the job ends. An object that does
    not fit may belong to a newer or older release, so it is retried by the rule.
    """
    if not job.payload.lstrip().startswith("{"):
        return _back(kind, job, Action.FAILED, timedelta(0), describe_error(error))
    return settle_error(kind, job, error, random)


def _wait(kind: Kind, job: ClaimedJob, random: Random) -> timedelta:
    wait = kind.retry.delay(job.failures, random)
    # A rule of the application's own may answer anything, and the settler needs a time.
    check_type("delay", wait, timedelta)
    return wait


def _complete_with(kind: Kind, job: ClaimedJob, answer: object) -> Settlement:
    try:
        result, note = write_result(answer), None
    except ResultNotStored as refused:
        # The effects stand, so the job is completed; running it again would repeat them.
        result, note = None, str(refused)
    return replace(complete(kind, job), result=result, error=note)


def _back(
    kind: Kind | None,
    job: ClaimedJob,
    action: Action,
    delay: timedelta,
    reason: str | None,
    *,
    pause: timedelta | None = None,
) -> Settlement:
    error = None if reason is None else fit_error(reason)
    wait = max(delay, timedelta(0))
    retention = Retention() if kind is None else kind.retention
    keep = retention.keep(completed=False)
    return Settlement(
        job.tenant_id, job.id, job.attempt, action, delay=wait, error=error, pause=pause, keep=keep
    )
