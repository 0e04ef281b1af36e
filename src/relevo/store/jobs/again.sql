-- name: lock_job
-- Holds one job still while an operator's decision is made, and says where it stands.
SELECT
    j.state,
    j.attempt,
    j.kind,
    EXISTS (
        SELECT
        FROM relevo.jobs AS other
        WHERE other.tenant_id = j.tenant_id
          AND other.kind = j.kind
          AND other.live_key = j.live_key
          AND other.live
          AND other.id <> j.id
    ) AS key_is_held
FROM relevo.jobs AS j
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND j.id = %(id)s::bigint
FOR UPDATE OF j;

-- name: requeue_jobs
-- Makes jobs due after a delay: finished ones start again with all their attempts, their history
-- kept; one that runs was perhaps asked to stop, and is asked no more.
WITH kept AS (
    INSERT INTO relevo.attempts (
        tenant_id,
        job_id,
        attempt,
        outcome,
        started_at,
        finished_at,
        error
    )
    SELECT
        j.tenant_id,
        j.id,
        j.attempt,
        j.outcome,
        j.started_at,
        j.finished_at,
        j.last_error
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.id = ANY (%(ids)s::bigint[])
      AND NOT j.live
      AND j.attempt > 0
    ON CONFLICT DO NOTHING
)
UPDATE relevo.jobs AS j
SET state = CASE WHEN j.live THEN j.state ELSE 'available' END,
    outcome = NULL,
    live = true,
    finished_at = NULL,
    prune_at = NULL,
    result = NULL,
    last_error = CASE WHEN j.live THEN j.last_error END,
    queue = CASE WHEN j.live THEN j.queue ELSE coalesce(%(queue)s::text, j.queue) END,
    excused = CASE WHEN j.live THEN j.excused ELSE j.attempt END,
    losses = CASE WHEN j.live THEN j.losses ELSE 0 END,
    available_at = now() + %(delay)s::float8 * interval '1 second',
    cancel_requested_at = NULL,
    -- A start under way may still answer that it is not wanted; that does not count any more.
    requeued_at = clock_timestamp(),
    requeued_by = %(actor)s::text
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND j.id = ANY (%(ids)s::bigint[])
RETURNING
    j.id,
    j.queue;

-- name: cancel_jobs
-- Ends the waiting jobs of one aggregate, and asks those that run to stop. One that ends first
-- keeps its end: the row is read again under its lock. Rows are locked in the order of their ids,
-- as a settle does.
WITH held AS MATERIALIZED (
    SELECT j.id
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.kind = %(kind)s::text
      AND j.aggregate_id = %(aggregate_id)s::text
      AND j.live
    ORDER BY j.id
    FOR NO KEY UPDATE
),
asked AS (
    UPDATE relevo.jobs AS j
    SET state = CASE j.state WHEN 'available' THEN 'cancelled' ELSE j.state END,
        live = j.state <> 'available',
        outcome = CASE j.state WHEN 'available' THEN 'cancelled' END,
        finished_at = CASE j.state WHEN 'available' THEN clock_timestamp() END,
        prune_at = CASE
            WHEN j.state = 'available'
             AND %(keep)s::float8 IS NOT NULL
             AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
            THEN greatest(clock_timestamp() + %(keep)s::float8 * interval '1 second', j.key_expires_at)
        END,
        cancel_requested_at = now()
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.id = ANY (ARRAY (SELECT held.id FROM held))
      AND j.live
    RETURNING j.state
)
SELECT
    count(*) FILTER (WHERE asked.state = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE asked.state <> 'cancelled') AS asked
FROM asked;
