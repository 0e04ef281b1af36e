"""What the whole life of a job writes into the WAL: added, claimed, ended."""

import psycopg
import pytest

from factories import KIND, QUEUE, a_worker, claim_some, settle_some
from relevo import Context, Relevo
from relevo.model.ring import Ring

JOBS = 3000
CHUNK = 500


@pytest.mark.parametrize(("key", "most"), [(None, 1250), ("key-{}", 1700)])
def test_a_job_writes_few_bytes_from_its_enqueue_to_its_end(
    database: str, key: str | None, most: int
) -> None:
    """Red when one more index, or one more version of the row, comes to a start or an end."""
    app = Relevo()

    @app.job(KIND, queue=QUEUE)
    async def work(ctx: Context, i: int) -> None:
        """Nothing; the test claims and settles."""

    with psycopg.connect(database, autocommit=True) as connection:
        worker, ring = a_worker(connection), Ring()
        # Pages that are written for the first time after a checkpoint are not the job's own.
        connection.execute("CHECKPOINT")
        begun = place(connection)
        for first in range(0, JOBS, CHUNK):
            numbers = range(first, first + CHUNK)
            keys = [key and key.format(number) for number in numbers]
            with connection.transaction():
                work.enqueue_many(connection, [{"i": number} for number in numbers], keys=keys)
        ended = 0
        while ended < JOBS:
            jobs = claim_some(connection, worker, CHUNK, ring=ring)
            ring.rest()
            ended += len(settle_some(connection, worker, jobs)) if jobs else 0
        written = place(connection) - begun

    assert written / JOBS < most


def place(connection: psycopg.Connection) -> int:
    """How many bytes of WAL have been written so far."""
    row = connection.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
    ).fetchone()
    assert row is not None
    return int(row[0])
