"""I4: no two sessions hold a job at once, nor one session two starts of it.

A start is valid from its claim until its session gives it back or the session ends. A lease
that has run out ends nothing: only the removal of the session's row does, for whoever
removed it knew that nobody answers any more. So the row may go when the lease is over, and
no worker but the session's own may say that it is over before its time.
"""

from collections.abc import Iterator

from faults.checker.story import Story, is_claim, is_loss, moment, tell
from faults.checker.violation import Violation
from faults.evidence.records import Event, Session

PURPOSES = ("claim", "settle", "handlers", "heartbeat", "listen", "rescue", "prune")
"""What a worker's connections are for, the second word of their programs."""


def validity(story: Story) -> Iterator[Violation]:
    """Look at every claim, and at every job that was taken from somebody."""
    for before, event in story.steps:
        if why := _judge(story, before, event):
            session = story.sessions.get(event.old_worker or event.worker or 0)
            yield Violation("I4", f"job {event.job_id} {why}", tell(session, before, event))


def _judge(story: Story, before: Event | None, event: Event) -> str:
    """Answer what is wrong, or nothing."""
    if event.op == "update" and event.old_state == event.state == "running":
        held, holds = (event.old_worker, event.old_attempt), (event.worker, event.attempt)
        if held != holds:
            return f"goes from session {held[0]} to {holds[0]} while it runs"
    if is_claim(event) and story.sessions:
        session = story.sessions.get(event.worker or 0)
        if session is None:
            return f"is claimed by session {event.worker}, which never was"
        if _had_ended(session, event):
            return f"is claimed by session {session.id}, which had ended"
    if is_loss(before, event):
        session = story.sessions.get(event.old_worker or 0)
        # One that the evidence does not know was taken away by somebody, row and all.
        if session is not None and (why := _lives(session, event)):
            return f"is taken from session {session.id}, which {why}"
    return ""


def _lives(session: Session, event: Event) -> str:
    """Answer why a session still counted as living, or nothing."""
    lease = f"with a lease until {moment(session.expires_at)}"
    if not _had_ended(session, event):
        return f"lived {lease}"
    if session.ended_at is not None and session.ended_at < session.expires_at:
        return f"was ended at {moment(session.ended_at)} {lease}"
    # Who stops well gives the lease back; a hand that is no worker's is a test's clock.
    others = [one for one in session.shortened_by if _is_of_another(one, session)]
    return f"was alive when {others[0]} ended its lease" if others else ""


def _is_of_another(program: str, session: Session) -> bool:
    return program.startswith(tuple(f"relevo {purpose} " for purpose in PURPOSES)) and all(
        program != f"relevo {purpose} {session.name}"[:63] for purpose in PURPOSES
    )


def _had_ended(session: Session, event: Event) -> bool:
    return session.end_seq is not None and session.end_seq < event.seq
