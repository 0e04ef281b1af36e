"""What we say about relevo.queues: who paused what, and until when."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from relevo.db.operation import Call, Operation
from relevo.db.statements import load_statements

STATEMENTS: Final = load_statements("relevo.store", "queues.sql")


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue that somebody has paused at least once."""

    name: str
    paused_until: datetime | None
    paused_reason: str | None
    paused_by: str | None
    is_paused: bool


def pause_queue(queue: str, for_: timedelta, reason: str, actor: str) -> Operation[datetime]:
    """Keep a queue from being claimed; answer until when."""
    params = {"queue": queue, "seconds": for_.total_seconds(), "reason": reason, "actor": actor}
    rows = yield Call(STATEMENTS["pause_queue"], params)
    paused_until: datetime = rows[0][0]
    return paused_until


def list_queues() -> Operation[list[QueueRow]]:
    """Answer every queue that somebody has paused."""
    rows = yield Call(STATEMENTS["list_queues"])
    return [QueueRow(*row) for row in rows]
