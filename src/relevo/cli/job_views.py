"""A job as people and as machines see it on the command line."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from relevo.cli.language import gettext as _
from relevo.model.job import Attempt, Job, JobState

RETRYING: Final = "retrying"
SCHEDULED: Final = "scheduled"
_SHOWN_ERROR: Final = 60
_FRAME: Final = '\n  File "'
"""How Python begins each call of a stack."""


def standing(job: Job) -> str:
    """Answer the word that people see: an available job may be waiting for its time."""
    if job.state is not JobState.AVAILABLE:
        return job.state.value
    if _starts(job) > 0:
        return RETRYING
    return SCHEDULED if job.available_at > datetime.now(UTC) else job.state.value


def say_standing(word: str) -> str:
    """Say a standing in the language of the run.

    Args:
        word: What `standing` answered, or --state said.
    """
    return _words()[word]


def job_row(job: Job) -> tuple[object, ...]:
    """Answer the line of one job in a list."""
    when = job.finished_at or (job.started_at if job.state is JobState.RUNNING else None)
    return (
        job.id,
        say_standing(standing(job)),
        job.queue,
        job.kind,
        f"{_starts(job)}/{job.max_attempts}",
        when or job.available_at,
        _first_line(job.last_error),
    )


def said(job: Job) -> dict[str, object]:
    """Answer the fields of one job, for people."""
    return {
        _("id"): job.id,
        _("tenant"): job.tenant_id,
        _("queue"): job.queue,
        _("kind"): job.kind,
        _("state"): say_standing(standing(job)),
        _("starts"): f"{_starts(job)}/{job.max_attempts}",
        _("losses"): job.losses or None,
        _("priority"): job.priority,
        _("aggregate"): job.aggregate_id,
        _("key"): job.key,
        _("created at"): job.created_at,
        _("due at"): job.available_at,
        _("began"): job.started_at,
        _("ended"): job.finished_at,
        _("worker"): job.worker,
        _("asked for by"): job.actor,
        _("retried at"): job.requeued_at,
        _("retried by"): job.requeued_by,
        _("payload"): job.payload,
        _("result"): job.result,
        _("last error"): job.last_error,
    }


def job_fields(job: Job) -> dict[str, object]:
    """Answer the fields of one job, for machines; its payload may be private and stays out."""
    return {
        "id": job.id,
        "tenant_id": job.tenant_id,
        "queue": job.queue,
        "kind": job.kind,
        "state": job.state,
        "standing": standing(job),
        "starts": _starts(job),
        "losses": job.losses,
        "max_attempts": job.max_attempts,
        "priority": job.priority,
        "available_at": job.available_at,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "worker": job.worker,
        "aggregate_id": job.aggregate_id,
        "key": job.key,
        "actor": job.actor,
        "requeued_at": job.requeued_at,
        "requeued_by": job.requeued_by,
        "last_error": job.last_error,
    }


def attempt_fields(attempt: Attempt) -> dict[str, object]:
    """Answer the fields of one start, for machines."""
    return {
        "attempt": attempt.attempt,
        "outcome": attempt.outcome,
        "worker": attempt.worker,
        "started_at": attempt.started_at,
        "finished_at": attempt.finished_at,
        "retry_at": attempt.retry_at,
        "error": attempt.error,
    }


def attempt_row(attempt: Attempt) -> tuple[object, ...]:
    """Answer the line of one start in a list."""
    return (
        attempt.attempt,
        _outcomes()[attempt.outcome],
        attempt.worker,
        attempt.started_at,
        attempt.finished_at,
        _first_line(attempt.error),
    )


def last_stack(history: Sequence[Attempt]) -> tuple[int, str] | None:
    """Answer the last start whose error has a stack, and that error whole, or None.

    Args:
        history: The starts, oldest first.
    """
    for attempt in reversed(history):
        if attempt.error is not None and _FRAME in attempt.error:
            return attempt.attempt, attempt.error
    return None


def _starts(job: Job) -> int:
    """Answer how many of its starts count."""
    return job.attempt - job.excused


def _first_line(error: str | None) -> str:
    line = (error or "").partition("\n")[0]
    return line if len(line) <= _SHOWN_ERROR else f"{line[: _SHOWN_ERROR - 1]}…"


def _words() -> dict[str, str]:
    return {
        JobState.AVAILABLE: _("available"),
        SCHEDULED: _("scheduled"),
        RETRYING: _("retrying"),
        JobState.RUNNING: _("running"),
        JobState.COMPLETED: _("completed"),
        JobState.FAILED: _("failed"),
        JobState.CANCELLED: _("cancelled"),
    }


def _outcomes() -> dict[str, str]:
    return {
        "completed": _("completed"),
        "retried": _("retried"),
        "snoozed": _("snoozed"),
        "released": _("released"),
        "lost": _("lost"),
        "failed": _("failed"),
        "cancelled": _("cancelled"),
    }
