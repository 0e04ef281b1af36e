-- name: count_running
-- How many jobs of a queue, a kind or a tenant are in the hands of workers: one pass over the live ones.
SELECT count(*) AS running
FROM relevo.jobs AS j
WHERE j.live
  AND j.worker IS NOT NULL
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
  AND (%(kind)s::text IS NULL OR j.kind = %(kind)s::text)
  AND (%(tenant_id)s::uuid IS NULL OR j.tenant_id = %(tenant_id)s::uuid);

-- name: has_live_jobs
-- Whether a queue, a kind or a tenant has a job that has not ended.
SELECT EXISTS (
    SELECT
    FROM relevo.jobs AS j
    WHERE j.live
      AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
      AND (%(kind)s::text IS NULL OR j.kind = %(kind)s::text)
      AND (%(tenant_id)s::uuid IS NULL OR j.tenant_id = %(tenant_id)s::uuid)
) AS has_jobs;

-- name: list_claims
-- The transactions that are claiming now. A statement takes its locks before it looks at any row,
-- so a claim that has not seen a committed pause is among those listed after the commit.
SELECT l.virtualtransaction
FROM pg_catalog.pg_locks AS l
WHERE l.locktype = 'relation'
  AND l.granted
  AND l.database = (
      SELECT d.oid
      FROM pg_catalog.pg_database AS d
      WHERE d.datname = current_database()
  )
  AND (l.relation, l.mode) IN (
      ('relevo.jobs'::regclass, 'RowExclusiveLock'),
      ('relevo.pauses'::regclass, 'AccessShareLock')
  )
GROUP BY l.virtualtransaction
HAVING count(DISTINCT l.relation) = 2;
