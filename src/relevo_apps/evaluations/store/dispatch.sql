-- name: activate_evaluations
-- Every draft evaluation of the cycle becomes active; answers how many, and how many people they ask.
WITH moved AS (
    UPDATE evaluations.evaluations
    SET state = 'active'
    WHERE tenant_id = %(tenant_id)s::uuid
      AND cycle_id = %(cycle_id)s::uuid
      AND state = 'draft'
    RETURNING evaluator_id
)
SELECT count(*),
       count(DISTINCT moved.evaluator_id)
FROM moved;

-- name: withdraw_evaluations
-- Every active evaluation of the cycle becomes a draft again.
WITH moved AS (
    UPDATE evaluations.evaluations
    SET state = 'draft'
    WHERE tenant_id = %(tenant_id)s::uuid
      AND cycle_id = %(cycle_id)s::uuid
      AND state = 'active'
    RETURNING id
)
SELECT count(*)
FROM moved;

-- name: revive_notifications
-- Notifications of an earlier activation that were never delivered are due again: the same
-- rows, with their history, and with all their starts before them. Whoever was written to
-- keeps the row that says so.
WITH asked AS MATERIALIZED (
    SELECT evaluation.evaluator_id::text AS evaluator_id
    FROM evaluations.evaluations AS evaluation
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.state = 'active'
    GROUP BY evaluation.evaluator_id
),
revived AS (
    UPDATE relevo.jobs AS job
    SET state = CASE WHEN job.live THEN job.state ELSE 'available' END,
        live = true,
        outcome = NULL,
        finished_at = NULL,
        cancel_requested_at = NULL,
        last_error = CASE WHEN job.live THEN job.last_error END,
        result = NULL,
        excused = CASE WHEN job.live THEN job.excused ELSE job.attempt END,
        losses = CASE WHEN job.live THEN job.losses ELSE 0 END,
        available_at = now() + make_interval(secs => %(hold_seconds)s::float8),
        -- A delivery under way may have seen the draft; its wish to cancel does not count any more.
        requeued_at = clock_timestamp(),
        requeued_by = %(actor)s::text,
        queue = CASE WHEN job.live THEN job.queue ELSE %(queue)s::text END,
        max_attempts = %(max_attempts)s::integer,
        priority = CASE WHEN job.live THEN job.priority ELSE %(priority)s::smallint END,
        actor = %(actor)s::text,
        headers = %(headers)s::text::jsonb
    FROM asked
    WHERE job.tenant_id = %(tenant_id)s::uuid
      AND job.kind = 'cycle.dispatched'
      AND job.aggregate_id = %(cycle_id)s::uuid::text
      AND job.payload ->> 'evaluator_id' = asked.evaluator_id
      AND (job.outcome IN ('cancelled', 'failed') OR (job.live AND job.cancel_requested_at IS NOT NULL))
    RETURNING job.id
)
SELECT count(*)
FROM revived;

-- name: insert_notifications
-- One notification for each person who is asked, unless one exists; answers how many are
-- new. The order keeps two writers of the same keys from waiting for each other.
WITH asked AS MATERIALIZED (
    SELECT evaluation.evaluator_id
    FROM evaluations.evaluations AS evaluation
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.state = 'active'
    GROUP BY evaluation.evaluator_id
),
created AS (
    INSERT INTO relevo.jobs
        (tenant_id, queue, kind, max_attempts, priority, aggregate_id, payload, actor, headers, available_at)
    SELECT %(tenant_id)s::uuid,
           %(queue)s::text,
           'cycle.dispatched',
           %(max_attempts)s::integer,
           %(priority)s::smallint,
           %(cycle_id)s::uuid::text,
           jsonb_build_object('evaluator_id', asked.evaluator_id),
           %(actor)s::text,
           %(headers)s::text::jsonb,
           now() + make_interval(secs => %(hold_seconds)s::float8)
    FROM asked
    ORDER BY asked.evaluator_id
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT count(*)
FROM created;

-- name: cancel_notifications
-- Takes back what is not being sent at this moment, and asks the rest to stop. A delivery
-- that ends first keeps its end: the row is read again under its lock.
WITH cancelled AS (
    UPDATE relevo.jobs AS job
    SET state = CASE job.state WHEN 'available' THEN 'cancelled' ELSE job.state END,
        live = job.state <> 'available',
        outcome = CASE job.state WHEN 'available' THEN 'cancelled' END,
        finished_at = CASE job.state WHEN 'available' THEN now() END,
        cancel_requested_at = now()
    WHERE job.tenant_id = %(tenant_id)s::uuid
      AND job.kind = 'cycle.dispatched'
      AND job.aggregate_id = %(cycle_id)s::uuid::text
      AND job.live
    RETURNING job.state
)
SELECT count(*) FILTER (WHERE cancelled.state = 'cancelled')
FROM cancelled;

-- name: list_recipients
-- Who had been written to, or was being written to, when the cycle was recalled.
SELECT job.live,
       person.external_id,
       person.full_name,
       person.email,
       CASE WHEN NOT job.live THEN job.finished_at END
FROM relevo.jobs AS job
JOIN evaluations.people AS person
    ON person.tenant_id = job.tenant_id
   AND person.id = (job.payload ->> 'evaluator_id')::uuid
WHERE job.tenant_id = %(tenant_id)s::uuid
  AND job.kind = 'cycle.dispatched'
  AND job.aggregate_id = %(cycle_id)s::uuid::text
  AND (job.outcome = 'completed' OR job.live)
ORDER BY person.sort_key, person.id;

-- name: list_invited
-- Who is asked by a cycle and can be written to, sorted by name, with how many
-- evaluations the message would list.
SELECT person.external_id,
       person.full_name,
       person.email,
       person.language,
       asked.evaluations
FROM (
    SELECT evaluation.evaluator_id,
           count(*) AS evaluations
    FROM evaluations.evaluations AS evaluation
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.state IN ('draft', 'active')
    GROUP BY evaluation.evaluator_id
) AS asked
JOIN evaluations.people AS person
    ON person.tenant_id = %(tenant_id)s::uuid
   AND person.id = asked.evaluator_id
WHERE person.active
  AND person.email IS NOT NULL
ORDER BY person.sort_key, person.id;
