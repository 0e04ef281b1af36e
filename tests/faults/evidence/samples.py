"""Look at cycles while they change: what anybody else would see at that moment."""

from uuid import UUID

import psycopg

from faults.evidence.witness import Witness

# One statement is one snapshot, whatever others commit meanwhile.
SEEN = """
SELECT c.tenant_id, c.id, c.state, e.drafts, e.others, e.asked, j.live, j.told
FROM evaluations.cycles AS c
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE e.state = 'draft') AS drafts,
        count(*) FILTER (WHERE e.state NOT IN ('draft', 'cancelled')) AS others,
        count(DISTINCT e.evaluator_id) FILTER (WHERE e.state IN ('active', 'submitted')) AS asked
    FROM evaluations.evaluations AS e
    WHERE e.tenant_id = c.tenant_id
      AND e.cycle_id = c.id
) AS e
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE j.live AND j.cancel_requested_at IS NULL) AS live,
        count(*) FILTER (
            WHERE EXISTS (
                SELECT
                FROM evaluations.evaluations AS e
                WHERE e.tenant_id = c.tenant_id
                  AND e.cycle_id = c.id
                  AND e.state IN ('active', 'submitted')
                  AND e.evaluator_id::text = j.payload ->> 'evaluator_id'
            )
        ) AS told
    FROM relevo.jobs AS j
    WHERE j.tenant_id = c.tenant_id
      AND j.kind = 'cycle.dispatched'
      AND j.aggregate_id = c.id::text
) AS j
WHERE c.tenant_id = %s
"""

NAMES = ("tenant_id", "cycle_id", "state", "drafts", "others", "asked", "live", "told")


def sample_cycles(connection: psycopg.Connection, witness: Witness, tenant_id: UUID) -> int:
    """Note how every cycle of a tenant stands at one moment; answer how many there are.

    Args:
        connection: Of somebody who may read evaluations and jobs of the tenant.
        witness: Where it is noted.
        tenant_id: Whose cycles.
    """
    rows = connection.execute(SEEN, [tenant_id]).fetchall()
    for row in rows:
        witness.note("sample", **dict(zip(NAMES, row, strict=True)))
    return len(rows)
