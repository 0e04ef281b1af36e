"""Take due jobs: the sweep over all lanes, and the round over remembered ones.

Each function is an operation: it runs on the caller's connection and never commits.
"""

from collections.abc import Sequence
from typing import Final

from relevo.db.operation import Call, Operation, Rows
from relevo.db.statements import load_statements
from relevo.model.job import ClaimedJob
from relevo.model.lanes import Lane, Round
from relevo.store.jobs.walk import walk_params

PRIORITY_COUNT: Final = 4

STATEMENTS: Final = load_statements("relevo.store.jobs", "claim.sql")


def claim_jobs(
    worker: int,
    queue: str,
    kinds: Sequence[str],
    *,
    limit: int,
    share: int,
    after: Lane,
    known: Sequence[Lane],
    priorities: Sequence[int],
) -> Operation[list[ClaimedJob]]:
    """Answer at most `limit` due jobs of any lane, now held by `worker`, first things first."""
    params = {
        "worker": worker,
        "queue": queue,
        "kinds": list(kinds),
        "limit": limit,
        "share": share,
        "priorities": list(priorities),
        **walk_params(after, known),
    }
    rows = yield Call(STATEMENTS["claim_jobs"], params)
    return in_order(rows)


def claim_lanes(
    worker: int, queue: str, kinds: Sequence[str], *, limit: int, begun: Round
) -> Operation[list[ClaimedJob]]:
    """Answer at most `limit` due jobs of remembered lanes, now held by `worker`."""
    params = {
        "worker": worker,
        "queue": queue,
        "kinds": list(kinds),
        "limit": limit,
        "shares": [share for share in begun.shares for _ in range(PRIORITY_COUNT)],
        "tenant_ids": [lane[0] for lane, _, _ in begun.probes],
        "lanes": [lane[1] for lane, _, _ in begun.probes],
        "priorities": [priority for _, priority, _ in begun.probes],
        "floors": [floor[0] for _, _, floor in begun.probes],
        "floor_ids": [floor[1] for _, _, floor in begun.probes],
    }
    rows = yield Call(STATEMENTS["claim_lanes"], params)
    return in_order(rows)


def in_order(rows: Rows) -> list[ClaimedJob]:
    """Answer claimed rows as jobs, first things first."""
    jobs = [ClaimedJob(*row) for row in rows]
    if len(jobs) > 1:
        jobs.sort(key=lambda job: (job.priority, job.available_at, job.id))
    return jobs
