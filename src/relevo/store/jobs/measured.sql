-- name: take_job_id
-- Answers an id that no job has: every job that is added later has a higher one.
SELECT nextval('relevo.jobs_id_seq');

-- name: count_unfinished_jobs
-- How many jobs of one queue and tenant are not done yet, by the claim's own index.
SELECT count(*)
FROM relevo.jobs AS j
WHERE j.queue = %(queue)s::text
  AND j.tenant_id = %(tenant_id)s::uuid
  AND j.live;

-- name: erase_jobs
-- Deletes a few jobs of one queue and kind, from an id on and whatever their state; answers the last one's id.
WITH doomed AS MATERIALIZED (
    SELECT j.id
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.id >= %(first)s::bigint
      AND j.queue = %(queue)s::text
      AND j.kind = %(kind)s::text
    ORDER BY j.id
    LIMIT %(limit)s::integer
),
erased AS (
    DELETE FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.id = ANY (ARRAY (SELECT doomed.id FROM doomed))
)
SELECT max(doomed.id)
FROM doomed;
