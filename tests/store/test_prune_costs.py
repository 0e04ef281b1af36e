"""What a batch of the pruner reads does not depend on what else the table holds, or held."""

import json
from typing import Any

import psycopg
import pytest
from plans import Node, as_engine, nodes

from archiving import archive_on, overdue_jobs
from factories import some_jobs
from relevo import DEFAULT_TENANT
from relevo.db.drivers import run
from relevo.engine.jobs.prune import BATCH, BEGINNING, Place, prune
from relevo.store.archive import STATEMENTS as ARCHIVE
from relevo.store.jobs.prune import STATEMENTS

pytestmark = pytest.mark.core

STAYING = """
INSERT INTO relevo.jobs
    (tenant_id, queue, kind, live, state, outcome, attempt, finished_at, prune_at)
SELECT %s, 'q', 'k', false, 'completed', 'completed', 1, now() - interval '1 year', %s
FROM generate_series(1, 20000)
"""


def explained(session: psycopg.Connection, name: str, after: Place = BEGINNING) -> Node:
    """Run a statement of the pruner, and answer its plan with what it read."""
    statement = {**STATEMENTS, **ARCHIVE}[name]
    params = {"limit": BATCH, "after_tenant": after.tenant_id, "after": after.prune_at}
    session.execute("SELECT set_config('relevo.knows_archive', 'on', true)")
    found = session.execute(
        b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.sql.encode(), params
    ).fetchone()[0]
    return (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]


def buffers(node: Node) -> int:
    return int(node["Shared Hit Blocks"]) + int(node["Shared Read Blocks"])


def costs(session: psycopg.Connection) -> dict[str, int]:
    """Buffers of a look for months and of a batch, which is rolled back."""
    read = {}
    for name in ("find_missing_months", "prune_jobs"):
        with session.transaction(force_rollback=True):
            read[name] = buffers(explained(session, name))
    return read


@pytest.mark.parametrize("archiving", [False, True])
def test_rows_that_stay_cost_a_batch_nothing(
    database: str,
    archiving: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    """Red without the partial index, or when the age is looked at and not the date to go."""
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(as_engine(database), autocommit=True) as session,
    ):
        if archiving:
            archive_on(owner)
        overdue_jobs(owner, BATCH)
        owner.execute("VACUUM ANALYZE relevo.jobs")
        alone = costs(session)
        for prune_at in (None, "2100-01-01"):
            owner.execute(STAYING, [DEFAULT_TENANT, prune_at])
        some_jobs(owner, 20_000)
        owner.execute("VACUUM ANALYZE relevo.jobs")

        beside = costs(session)

    assert alone["prune_jobs"] > BATCH
    assert {name: beside[name] <= alone[name] * 1.1 for name in alone} == dict.fromkeys(alone, True)


def test_a_batch_does_not_read_what_the_batches_before_left_dead(database: str) -> None:
    """Red when each batch begins at the oldest entry: a long transaction keeps all of them."""
    picked = []
    with (
        psycopg.connect(database, autocommit=True) as owner,
        psycopg.connect(database) as pinned,
        psycopg.connect(as_engine(database)) as session,
    ):
        overdue_jobs(owner, 10 * BATCH)
        pinned.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        pinned.execute("SELECT count(*) FROM relevo.jobs")
        after = BEGINNING
        for _ in range(10):
            with session.transaction(force_rollback=True):
                picked.append(buffers(picking(explained(session, "prune_jobs", after))))
            batch = run(session, prune(after))
            session.commit()
            after = batch.last
        with session.transaction():
            from_the_beginning = buffers(picking(explained(session, "prune_jobs")))

    assert picked[-1] <= picked[1] * 1.5
    assert from_the_beginning > picked[-1] * 4


def picking(plan: Node) -> dict[str, Any]:
    """The scan that finds the jobs to go."""
    (scan,) = [dict(node) for node in nodes(plan) if node.get("Index Name") == "jobs_prune"]
    return scan
