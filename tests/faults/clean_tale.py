"""A history in which the engine does everything that it does, each in an allowed way."""

from dataclasses import replace
from uuid import UUID

from faults.tale import MILLISECOND, Tale

LANE = UUID(int=2)


def a_clean_tale() -> Tale:
    """Answer a history that breaks no promise."""
    tale = Tale()
    tale.session(2)
    for job in range(1, 10):
        tale.note("intent", ref=f"r{job}")
        tale.enqueue(job, ref=f"r{job}")
        tale.note("enqueued", ref=f"r{job}", job_id=job)
    completed_with_an_effect(tale, 1)
    retried_and_completed(tale, 2)
    lost_and_failed(tale, 3)
    cancelled_and_asked_again(tale, 4)
    completed_twice_as_asked(tale, 5)
    put_off_moved_and_pruned(tale, 6)
    cancelled_too_late(tale, 7)
    settled_after_its_lease(tale, 8)
    tale.change(9, available_at=tale.now * 2)
    return tale


def completed_with_an_effect(tale: Tale, job: int) -> None:
    """Both in the handler's own transaction."""
    start(tale, job)
    tale.finish(job, program="relevo handlers w1")
    tale.effect(job)
    tale.note("end", job_id=job, attempt=tale.last(job).attempt)


def retried_and_completed(tale: Tale, job: int) -> None:
    """Starts that fail, or do not count; the last one ends outside a transaction."""
    for outcome in ("retried", "snoozed", "released"):
        start(tale, job)
        answer(tale, job)
        tale.go_back(job, outcome)
    start(tale, job)
    answer(tale, job)
    tale.finish(job)


def lost_and_failed(tale: Tale, job: int) -> None:
    """Its session ends before the claim was ever started, and another one starts it."""
    tale.claim(job, worker=2)
    tale.end(2)
    tale.go_back(job, "lost")
    start(tale, job)
    tale.finish(job, "failed")


def cancelled_and_asked_again(tale: Tale, job: int) -> None:
    """While it waits, and after a requeue while it runs."""
    tale.change(job, state="cancelled", finished_at=tale.now, cancel_requested_at=tale.now)
    tale.requeue(job, cancel_requested_at=None)
    tale.claim(job)
    tale.change(job, cancel_requested_at=tale.now)
    tale.finish(job, "cancelled", cancel_requested_at=None)


def completed_twice_as_asked(tale: Tale, job: int) -> None:
    """An operator asks for it again, so the same effect may come again."""
    completed_with_an_effect(tale, job)
    tale.requeue(job)
    completed_with_an_effect(tale, job)


def put_off_moved_and_pruned(tale: Tale, job: int) -> None:
    """Nobody serves it for a while, it gets a lane, and lets its key go when that is over."""
    tale.change(job, available_at=tale.now + 10 * MILLISECOND)
    tale.change(job, lane=LANE)
    tale.change(job, key="k")
    tale.change(job, key=None)
    start(tale, job)
    answer(tale, job)
    tale.finish(job)
    tale.prune(job)


def cancelled_too_late(tale: Tale, job: int) -> None:
    """Its handler finds it unwanted, and meanwhile somebody wants it again."""
    tale.claim(job)
    tale.change(job, requeued_at=tale.now)
    tale.go_back(job, "cancelled", available_at=tale.now * 2)


def settled_after_its_lease(tale: Tale, job: int) -> None:
    """The lease had run out, and nobody had taken the job: its session still holds it."""
    tale.sessions[1] = replace(tale.sessions[1], expires_at=tale.now)
    tale.claim(job)
    tale.finish(job, "failed")


def start(tale: Tale, job: int) -> None:
    """Claim it, and let its handler begin."""
    tale.claim(job)
    tale.note("start", job_id=job, attempt=tale.last(job).attempt)


def answer(tale: Tale, job: int) -> None:
    """Let its handler return."""
    tale.note("end", job_id=job, attempt=tale.last(job).attempt)
