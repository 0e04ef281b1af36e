"""The evidence in the order in which it is asked for, and how it is told to a person."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeAlias

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
Step: TypeAlias = tuple[Event | None, Event]
Change: TypeAlias = Step | LimitChange

FINAL = frozenset(("completed", "failed", "cancelled"))
BEGINNINGS = frozenset(("insert", "found"))

SKEW = 30 * 60 * 1_000_000
"""Times that are further apart were shown by different clocks: some tests set them wrong."""


class Story:
    """A history by job, built once for all invariants.

    Attributes:
        quiescent: Whether faults had stopped and everything had time to settle.
    """

    def __init__(self, history: History, *, quiescent: bool = True) -> None:
        self.history = history
        self.quiescent = quiescent
        self.events: dict[int, list[Event]] = _by_job(history.events)
        self.effects: dict[int, list[Effect]] = _by_job(history.effects)
        self.attempts: dict[int, list[Attempt]] = _by_job(history.attempts)
        self.notes: dict[int, list[Note]] = _by_job(history.notes)
        self.sessions: dict[int, Session] = {one.id: one for one in history.sessions}
        self.jobs: dict[int, list[Job]] = defaultdict(list)
        for job in history.jobs:
            self.jobs[job.id].append(job)

    @cached_property
    def steps(self) -> list[Step]:
        """Every change with the one before it of the same job, in the order of the evidence."""
        last: dict[int, Event] = {}
        found: list[Step] = []
        for event in self.history.events:
            found.append((last.get(event.job_id), event))
            last[event.job_id] = event
        return found

    def steps_among(self, limits: Iterable[LimitChange]) -> list[Change]:
        """Answer every change of jobs and of these limits, in the order of the evidence."""
        changes: list[Change] = [*self.steps, *limits]
        return sorted(changes, key=_seq)

    def steps_of(self, job_id: int) -> Iterator[Step]:
        """Answer the changes of one job, each with the one before it."""
        events = self.events.get(job_id, [])
        return zip([None, *events], events, strict=False)

    def notes_of(self, *whats: str) -> Iterator[Note]:
        """Answer what witnesses noted under these words."""
        return (note for note in self.history.notes if note.what in whats)

    def kinds_with(self, what: str) -> set[str]:
        """Answer the kinds of job about which some witness notes this at all."""
        ids = {note.job_id for note in self.notes_of(what)}
        return {events[0].kind for job_id, events in self.events.items() if job_id in ids}

    def tell_job(self, job_id: int) -> list[str]:
        """Answer everything about one job."""
        return tell(
            *self.events.get(job_id, ()),
            *self.effects.get(job_id, ()),
            *self.attempts.get(job_id, ()),
            *self.notes.get(job_id, ()),
            *self.jobs.get(job_id, ()),
        )


def is_claim(event: Event) -> bool:
    """Whether a job got into a session's hands."""
    return event.op == "update" and event.state == "running" and event.old_state != "running"


def is_end(event: Event) -> bool:
    """Whether an attempt ended: the job left a session's hands."""
    return event.op == "update" and event.old_state == "running" and event.state != "running"


def is_requeue(event: Event) -> bool:
    """Whether a finished job may start again."""
    return event.op == "update" and event.state == "available" and event.old_state in FINAL


def is_loss(before: Event | None, event: Event) -> bool:
    """Whether somebody took the job back from a session, instead of the session giving it."""
    raised = before is not None and event.losses > before.losses
    return is_end(event) and (raised or event.program.startswith("relevo rescue "))


def is_before(earlier: int, later: int) -> bool:
    """Whether a time lies before another, as far as one clock can have shown both."""
    return earlier < later < earlier + SKEW


def _seq(change: Change) -> int:
    return change.seq if isinstance(change, LimitChange) else change[1].seq


def _by_job(records: Iterable[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = defaultdict(list)
    for record in records:
        if record.job_id is not None:
            found[record.job_id].append(record)
    return found


def tell(*pieces: Piece | None) -> list[str]:
    """Answer the evidence one line each, in the order of time; what has no time comes last."""
    given = [piece for piece in pieces if piece is not None]
    return [_line(piece) for piece in sorted(given, key=_order)]


def _order(piece: Piece) -> tuple[int, int]:
    at = piece.opened_at if isinstance(piece, Session) else getattr(piece, "at", 2**63)
    return at, getattr(piece, "seq", 0) or getattr(piece, "number", 0)


def _line(piece: Piece) -> str:
    match piece:
        case Event():
            return (
                f"{moment(piece.at)} event {piece.seq} v{piece.version} job {piece.job_id}"
                f" {piece.op} {piece.old_state or '-'} → {piece.state}"
                f" attempt {piece.attempt} (excused {piece.excused}, losses {piece.losses},"
                f" max {piece.max_attempts}) worker {piece.old_worker} → {piece.worker}"
                f" due {moment(piece.available_at)} xact {piece.xact} by {piece.program or '?'}"
            )
        case Note():
            said = {"ref": piece.ref, "job_id": piece.job_id, "attempt": piece.attempt}
            words = {**said, **piece.fields}.items()
            text = " ".join(f"{word}={value}" for word, value in words if value is not None)
            return f"{moment(piece.at)} {piece.source}:{piece.number} {piece.what} {text}"
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
    if not 0 < at < 2**57:
        return "-" * 15
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at):%H:%M:%S.%f}"
