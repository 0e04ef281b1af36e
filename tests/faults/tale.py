"""Write a history by hand, as the engine would have left it, and then break it.

Every step takes a millisecond and a transaction of its own, and sees all steps before it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from faults.checker import check
from faults.evidence.records import (
    Attempt,
    Effect,
    Event,
    History,
    Job,
    LimitChange,
    Note,
    Session,
)

MILLISECOND = 1000
BEGINNING = 1_000_000 * MILLISECOND


Break = Callable[["Tale"], Any]
"""Something that breaks a promise in a history."""


def named(history: History, **rules: Any) -> set[str]:
    """Answer the invariants that the checker names; each has to say what it saw."""
    found = check(history, **rules)
    assert all(violation.message and violation.slice for violation in found)
    return {violation.invariant for violation in found}


class Tale:
    """A history in the making; the session 1 is there from the beginning."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.effects: list[Effect] = []
        self.attempts: list[Attempt] = []
        self.notes: list[Note] = []
        self.limits: list[LimitChange] = []
        self.sessions: dict[int, Session] = {}
        self.now = BEGINNING
        self._seq = 0
        self.session(1)

    def session(self, id_: int, name: str = "", **columns: Any) -> None:
        """Open a session."""
        self.sessions[id_] = Session(id_, name or f"w{id_}", opened_at=self._tick(), **columns)

    def end(self, id_: int, **columns: Any) -> None:
        """End a session whose lease is over, as the removal of its row does."""
        at = self._tick()
        columns = {"expires_at": at, "ended_at": at, "end_seq": self._seq, **columns}
        self.sessions[id_] = replace(self.sessions[id_], **columns)

    def enqueue(self, job: int, **columns: Any) -> None:
        """Add a job that is due at once, unless the columns say otherwise."""
        at = self._tick()
        columns = {"available_at": at, "mark": self._seq, **columns}
        self.events.append(Event(self._seq, "insert", job, **self._times(at), **columns))

    def change(self, job: int, **columns: Any) -> Event:
        """Change a row; what is not named stays as it was."""
        at, before = self._tick(), self.last(job)
        old = {
            "old_tenant_id": before.tenant_id,
            "old_state": before.state,
            "old_attempt": before.attempt,
            "old_worker": before.worker,
            "old_mark": before.mark,
        }
        given = {"seq": self._seq, "op": "update", "mark": self._seq, "ref": None, "program": ""}
        event = replace(before, **{**given, **self._times(at), **old, "evaluator": None, **columns})
        self.events.append(event)
        return event

    def claim(self, job: int, worker: int = 1, **columns: Any) -> None:
        """Start a job."""
        self.change(
            job,
            **{
                "state": "running",
                "attempt": self.last(job).attempt + 1,
                "worker": worker,
                "started_at": self.now + MILLISECOND,
                "waiting_key": None,
                "program": f"relevo claim w{worker}",
                **columns,
            },
        )

    def finish(self, job: int, state: str = "completed", **columns: Any) -> None:
        """End a start for good."""
        program = f"relevo settle w{self.last(job).worker}"
        end = {"state": state, "worker": None, "finished_at": self.now, "program": program}
        event = self.change(job, **{**end, **columns})
        if state != "completed":
            self.attempts.append(Attempt(job, event.attempt, state))

    def go_back(self, job: int, outcome: str = "retried", **columns: Any) -> None:
        """End a start and let the job wait for the next: retried, released, snoozed or lost."""
        before = self.last(job)
        end: dict[str, Any] = {"state": "available", "worker": None}
        end["program"] = f"relevo settle w{before.worker}"
        if outcome == "lost":
            end |= {"losses": before.losses + 1, "program": "relevo rescue w9"}
        elif outcome != "retried":
            end |= {"excused": before.excused + 1}
        event = self.change(job, **{**end, **columns})
        self.attempts.append(Attempt(job, event.attempt, outcome))

    def requeue(self, job: int, **columns: Any) -> None:
        """Let a finished job start again, as an operator does."""
        before = self.last(job)
        if before.state == "completed":
            self.attempts.append(Attempt(job, before.attempt, "completed"))
        again = {"state": "available", "finished_at": None, "requeued_at": self.now, "losses": 0}
        again |= {"excused": before.attempt, "prune_at": None, "available_at": self.now}
        self.change(job, **{**again, **columns})

    def prune(self, job: int, **columns: Any) -> None:
        """Delete a finished job whose retention is over."""
        self.change(job, prune_at=self.now)
        self.change(job, **{"op": "delete", "mark": None, **columns})

    def effect(self, job: int, **columns: Any) -> None:
        """Add an effect to the transaction of the job's last event."""
        last = self.last(job)
        token = {"attempt": last.attempt, "session": last.old_worker, "xact": last.xact}
        given = {"seq": last.seq, "job_id": job, **token, "at": last.at, **columns}
        self.effects.append(Effect(**given))

    def note(self, what: str, **fields: Any) -> None:
        """Add a witness's line."""
        known = {name: fields.pop(name) for name in set(fields) & set(Note.__slots__)}
        given = {"at": self._tick(), "number": len(self.notes), **known, "fields": fields}
        self.notes.append(Note(what, **given))

    def limit(self, scope: str, name: str, most: int = 1, **columns: Any) -> None:
        """Set a limit, or change or remove it where the columns say so."""
        at = self._tick()
        columns = {"op": "insert", "xact": self._seq, **columns}
        change = LimitChange(self._seq, scope=scope, name=name, most=most, at=at, **columns)
        self.limits.append(change)

    def last(self, job: int) -> Event:
        """Answer the last event of a job."""
        return next(event for event in reversed(self.events) if event.job_id == job)

    def break_last(self, job: int, **columns: Any) -> None:
        """Rewrite the last event of a job, and leave everything else as it is."""
        event = self.last(job)
        self.events[self.events.index(event)] = replace(event, **columns)

    def history(self, **changes: Any) -> History:
        """Answer the history, with the rows that its events leave."""
        last = {event.job_id: event for event in self.events}
        rows = [event for event in last.values() if event.op != "delete"]
        whole = History(
            events=tuple(self.events),
            effects=tuple(self.effects),
            attempts=tuple(self.attempts),
            jobs=tuple(Job(row.job_id, row.state, row.attempt, row.tenant_id) for row in rows),
            notes=tuple(self.notes),
            sessions=tuple(self.sessions.values()),
            limits=tuple(self.limits),
            read_at=self._tick(),
        )
        return replace(whole, **changes)

    def _tick(self) -> int:
        self._seq += 1
        self.now += MILLISECOND
        return self.now

    def _times(self, at: int) -> dict[str, Any]:
        snapshot = (self._seq, self._seq + 1, frozenset((self._seq,)))
        return {"at": at, "began_at": at - 1, "xact": self._seq, "snapshot": snapshot}


def running(tale: Tale, job: int = 1, **columns: Any) -> None:
    """Add a job and start it."""
    tale.enqueue(job, **columns)
    tale.claim(job)


def done(tale: Tale, job: int = 1, **columns: Any) -> None:
    """Add a job, start it and complete it."""
    running(tale, job, **columns)
    tale.finish(job)
