-- name: prune_jobs
-- Deletes finished jobs whose retention is over, a few at a time.
WITH old AS MATERIALIZED (
    SELECT gone.place
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now()
          AND NOT j.live
        ORDER BY j.prune_at
        LIMIT %(limit)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS gone
    LIMIT %(limit)s::integer
),
pruned AS (
    DELETE FROM relevo.jobs AS j
    WHERE j.ctid = ANY (ARRAY (SELECT old.place FROM old))
    RETURNING j.id
)
SELECT count(*)
FROM pruned;
