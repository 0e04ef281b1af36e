-- name: list_attempts
-- The starts of one job that did not complete it, oldest first.
SELECT
    a.attempt,
    a.outcome,
    a.worker,
    a.started_at,
    a.finished_at,
    a.retry_at,
    a.error
FROM relevo.attempts AS a
WHERE a.tenant_id = %(tenant_id)s::uuid
  AND a.job_id = %(job_id)s::bigint
ORDER BY a.attempt;
