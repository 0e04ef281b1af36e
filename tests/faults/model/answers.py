"""What handlers answer, decided as a worker decides it: by relevo.model.settlement."""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

from relevo import Cancel, Fail, Outage, PermanentError, Retry, Snooze
from relevo.model.job import ClaimedJob
from relevo.model.kind import Kind
from relevo.model.settlement import (
    Settlement,
    release,
    settle_answer,
    settle_cancelled,
    settle_error,
    settle_timeout,
)

_HOUR: Final = timedelta(hours=1)
_RANDOM: Final = Random(0)  # noqa: S311 -- the kinds have no jitter
_Decide = Callable[[Kind, ClaimedJob], Settlement]


def _answered(given: object) -> _Decide:
    return lambda kind, job: settle_answer(kind, job, given, _RANDOM)


_DECISIONS: Final[dict[str, _Decide]] = {
    "completed": _answered(None),
    "result": _answered({"a": 1}),
    "retry": _answered(Retry()),
    "retry now": _answered(Retry(timedelta(0))),
    "snooze": _answered(Snooze(2 * _HOUR, "too early")),
    "fail": _answered(Fail("no way")),
    "cancel": _answered(Cancel("not wanted")),
    "outage": _answered(Outage("down", _HOUR)),
    "raise": lambda kind, job: settle_error(kind, job, ValueError("broken"), _RANDOM),
    "raise for good": lambda kind, job: settle_error(kind, job, PermanentError("no"), _RANDOM),
    "time out": lambda kind, job: settle_timeout(kind, job, _RANDOM),
    "cancelled inside": lambda kind, job: settle_cancelled(kind, job, _RANDOM),
    "hand back": lambda kind, job: release(kind, job, "the worker stops"),
    "unknown": lambda kind, job: release(None, job, "nobody knows it", _HOUR),
}

ANSWERS: Final = tuple(_DECISIONS)


def answer(word: str, kind: Kind, job: ClaimedJob) -> Settlement:
    """Answer what is to be written for a start that ended so."""
    return _DECISIONS[word](kind, job)
