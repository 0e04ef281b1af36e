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

-- name: find_undelivered
-- Notifications of an earlier activation that were never delivered, to people who are asked now.
-- Whoever was written to keeps the row that says so.
SELECT job.id
FROM relevo.jobs AS job
JOIN (
    SELECT DISTINCT evaluation.evaluator_id::text AS evaluator_id
    FROM evaluations.evaluations AS evaluation
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.state = 'active'
) AS asked
    ON asked.evaluator_id = job.payload ->> 'evaluator_id'
WHERE job.tenant_id = %(tenant_id)s::uuid
  AND job.kind = 'cycle.dispatched'
  AND job.aggregate_id = %(cycle_id)s::uuid::text
  AND (job.outcome IN ('cancelled', 'failed') OR (job.live AND job.cancel_requested_at IS NOT NULL))
ORDER BY job.id;

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
