"""The evidence in the order in which it is asked for, and how it is told to a person."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TypeAlias

from faults.evidence.records import (
    Attempt,
    CycleChange,
    Effect,
    Event,
    History,
    Job,
    LimitChange,
    Note,
    Session,
)

Piece: TypeAlias = Event | Effect | Attempt | Job | Note | Session | LimitChange | CycleChange


class Story:
    """A history by job, built once for all invariants."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.events: dict[int, list[Event]] = _by_job(history.events)
        self.effects: dict[int, list[Effect]] = _by_job(history.effects)
        self.attempts: dict[int, list[Attempt]] = _by_job(history.attempts)
        self.notes: dict[int, list[Note]] = _by_job(history.notes)
        self.jobs: dict[int, list[Job]] = defaultdict(list)
        for job in history.jobs:
            self.jobs[job.id].append(job)
        self.sessions: dict[int, Session] = {one.id: one for one in history.sessions}

    @cached_property
    def claims(self) -> list[Event]:
        """Every start, in the order of the evidence."""
        return [event for event in self.history.events if is_claim(event)]

    def tell_job(self, job_id: int) -> list[str]:
        """Everything about one job."""
        return tell(
            [
                *self.events.get(job_id, ()),
                *self.effects.get(job_id, ()),
                *self.attempts.get(job_id, ()),
                *self.notes.get(job_id, ()),
                *self.jobs.get(job_id, ()),
            ]
        )


def is_claim(event: Event) -> bool:
    """Whether a job got into a session's hands."""
    return event.state == "running" and event.op == "update" and event.old_state != "running"


def is_end(event: Event) -> bool:
    """Whether an attempt ended: the job left a session's hands."""
    return event.old_state == "running" and event.state != "running" and event.op == "update"


def is_requeue(event: Event) -> bool:
    """Whether an operator let a finished job start again."""
    return event.op == "update" and event.state == "available" and event.old_state in FINAL


FINAL = frozenset(("completed", "failed", "cancelled"))


def _by_job(records: Iterable[Piece]) -> dict[int, list]:
    found: dict[int, list] = defaultdict(list)
    for record in records:
        if record.job_id is not None:
            found[record.job_id].append(record)
    return found


def tell(pieces: Sequence[Piece]) -> list[str]:
    """Answer the evidence one line each, in the order of time; what has none comes last."""
    ordered = sorted(pieces, key=lambda piece: (getattr(piece, "at", 0) or 2**63, _number(piece)))
    return [_line(piece) for piece in ordered]


def _number(piece: Piece) -> int:
    return getattr(piece, "seq", 0) or getattr(piece, "number", 0)


def _line(piece: Piece) -> str:
    match piece:
        case Event():
            return (
                f"{moment(piece.at)} event {piece.seq} v{piece.version} job {piece.job_id}"
                f" {piece.op} {piece.old_state or '-'} → {piece.state}"
                f" attempt {piece.attempt} (excused {piece.excused}, losses {piece.losses},"
                f" max {piece.max_attempts}) worker {piece.old_worker} → {piece.worker}"
                f" xact {piece.xact} by {piece.program or '?'}"
            )
        case Note():
            said = {"ref": piece.ref, "job_id": piece.job_id, "attempt": piece.attempt}
            words = " ".join(
                f"{k}={v}" for k, v in {**said, **piece.fields}.items() if v is not None
            )
            return f"{moment(piece.at)} {piece.source}:{piece.number} {piece.what} {words}"
        case Effect():
            return (
                f"{moment(piece.at)} effect {piece.seq} job {piece.job_id} attempt {piece.attempt}"
                f" session {piece.session} key {piece.key} xact {piece.xact}"
            )
        case Session():
            ended = "lives" if piece.ended_at is None else f"ended {moment(piece.ended_at)}"
            return f"{moment(piece.opened_at)} session {piece.id} {piece.name}, {ended}"
        case _:
            return str(piece)


def moment(at: int) -> str:
    """Answer a time as a person reads it."""
    if not at:
        return "-" * 15
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at):%H:%M:%S.%f}"
