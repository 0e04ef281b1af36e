"""A worker's session: the one lease under which it holds all its jobs."""

from collections.abc import Sequence

from relevo.db.operation import Operation
from relevo.model.retention import DAYS_FAILED
from relevo.store import workers
from relevo.store.jobs import enqueue as enqueue_rows
from relevo.store.jobs import recover as recover_rows

__all__ = [
    "close_session",
    "hand_back_unknown",
    "mark_idle",
    "open_session",
    "renew",
    "stop_taking",
]

open_session = workers.insert_worker
renew = workers.renew_worker
mark_idle = workers.mark_worker_idle
stop_taking = workers.mark_worker_stopping
read_clock = workers.read_clock


def hand_back_unknown(
    worker: int, known: Sequence[int], kept_kinds: Sequence[str] = ()
) -> Operation[int]:
    """Hand back what the session holds without knowing it, after a claim's answer was lost.

    One pass over the live jobs; answer how many went back, without a charge.

    Args:
        worker: The session.
        known: The jobs that it knows.
        kept_kinds: Kinds whose jobs stay when they end; one that was asked to stop ends here.
    """
    keep = DAYS_FAILED.total_seconds()
    count = yield from recover_rows.release_unknown_jobs(worker, known, keep, kept_kinds)
    return count


def close_session(worker: int, queues: Sequence[str]) -> Operation[None]:
    """End the session of a worker that stops well: give its lease back, then remove it.

    Each statement by itself: the removal needs the lease to be over. Jobs that were
    handed back are announced, so that another worker starts them; whatever the session
    still held without knowing it is left to the rescue, which its removal is noted for.
    """
    yield from workers.expire_worker(worker)
    yield from workers.delete_worker(worker)
    for queue in queues:
        yield from enqueue_rows.wake_workers(queue)
