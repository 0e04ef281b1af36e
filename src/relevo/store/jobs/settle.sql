-- name: complete_jobs
-- Ends attempts that succeeded; a worker that lost a job gets no row for it.
UPDATE relevo.jobs AS j
SET state = 'completed',
    outcome = 'completed',
    live = false,
    worker = NULL,
    finished_at = clock_timestamp(),
    cancel_requested_at = NULL,
    -- A key that never expires keeps its row.
    prune_at = CASE
        -- greatest() would pass over a keep that is NULL, and take the key's expiry.
        WHEN done.keep IS NOT NULL AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
        THEN greatest(clock_timestamp() + done.keep * interval '1 second', j.key_expires_at)
    END,
    result = done.result::jsonb,
    last_error = coalesce(done.error, j.last_error)
FROM unnest(
    %(tenant_ids)s::uuid[],
    %(ids)s::bigint[],
    %(attempts)s::integer[],
    %(results)s::text[],
    %(errors)s::text[],
    %(keeps)s::float8[]
) AS done (tenant_id, id, attempt, result, error, keep)
-- An array of one, not "=": a merge could use "=", and an empty table's plan would then read all of it.
WHERE j.tenant_id = ANY (ARRAY[done.tenant_id])
  AND j.id = done.id
  AND j.attempt = done.attempt
  AND j.worker = %(worker)s::bigint
RETURNING
    j.tenant_id,
    j.id;

-- name: settle_jobs
-- Ends attempts that did not succeed: back to the queue, or final, with one row of history each.
WITH input AS (
    SELECT u.*
    FROM unnest(
        %(tenant_ids)s::uuid[],
        %(ids)s::bigint[],
        %(attempts)s::integer[],
        %(actions)s::text[],
        %(delays)s::float8[],
        %(errors)s::text[],
        %(traces)s::text[],
        %(keeps)s::float8[]
    ) AS u (tenant_id, id, attempt, action, delay, error, trace, keep)
),
-- Decided under the row's lock, so that a cancel that came in the meantime is seen.
held AS MATERIALIZED (
    SELECT
        i.*,
        CASE
            -- It was asked for again after this start began: what the handler saw is out of date.
            WHEN i.action = 'cancelled' AND j.requeued_at > j.started_at THEN 'available'
            WHEN i.action IN ('failed', 'cancelled') THEN i.action
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN i.action = 'retried' AND j.attempt - j.excused >= j.max_attempts THEN 'failed'
            ELSE 'available'
        END AS state
    FROM input AS i
    -- An array of one for the plan's sake, as in complete_jobs.
    JOIN relevo.jobs AS j
        ON j.tenant_id = ANY (ARRAY[i.tenant_id])
       AND j.id = i.id
    WHERE j.attempt = i.attempt
      AND j.worker = %(worker)s::bigint
    FOR UPDATE OF j
),
settled AS (
    UPDATE relevo.jobs AS j
    SET state = h.state,
        outcome = CASE WHEN h.state <> 'available' THEN h.state END,
        live = h.state = 'available',
        finished_at = CASE WHEN h.state <> 'available' THEN clock_timestamp() END,
        available_at = CASE
            WHEN h.state <> 'available' THEN j.available_at
            WHEN h.action = 'cancelled' THEN greatest(j.available_at, clock_timestamp())
            ELSE clock_timestamp() + h.delay * interval '1 second'
        END,
        prune_at = CASE
            WHEN h.state <> 'available'
             AND h.keep IS NOT NULL
             AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
            THEN greatest(clock_timestamp() + h.keep * interval '1 second', j.key_expires_at)
        END,
        worker = NULL,
        excused = CASE
            WHEN h.action IN ('snoozed', 'released')
              OR (h.action = 'cancelled' AND h.state = 'available') THEN least(j.excused, j.attempt - 1) + 1
            ELSE j.excused
        END,
        cancel_requested_at = NULL,
        last_error = coalesce(h.error, j.last_error)
    FROM held AS h
    WHERE j.tenant_id = ANY (ARRAY[h.tenant_id])
      AND j.id = h.id
    RETURNING
        j.tenant_id,
        j.id,
        j.attempt,
        j.state,
        j.started_at,
        j.available_at,
        h.action,
        coalesce(h.trace, h.error) AS error
),
history AS (
    INSERT INTO relevo.attempts (
        tenant_id,
        job_id,
        attempt,
        outcome,
        worker,
        started_at,
        retry_at,
        error
    )
    SELECT
        s.tenant_id,
        s.id,
        s.attempt,
        CASE WHEN s.state = 'available' THEN s.action ELSE s.state END,
        %(worker)s::bigint,
        s.started_at,
        CASE WHEN s.state = 'available' THEN s.available_at END,
        s.error
    FROM settled AS s
    -- A count set back by hand meets its old rows; they stay, and the job still ends.
    ON CONFLICT DO NOTHING
)
SELECT
    s.tenant_id,
    s.id,
    s.state
FROM settled AS s;
