-- name: count_participants
-- How many people a cycle evaluates.
SELECT count(*)
FROM evaluations.participants
WHERE tenant_id = %(tenant_id)s::uuid
  AND cycle_id = %(cycle_id)s::uuid;

-- name: count_evaluations
-- How many evaluations a cycle has, by state.
SELECT state, count(*)
FROM evaluations.evaluations
WHERE tenant_id = %(tenant_id)s::uuid
  AND cycle_id = %(cycle_id)s::uuid
GROUP BY state;

-- name: count_notifications
-- How the notifications of a cycle stand. Starts that were excused are no retries.
SELECT count(*),
       count(*) FILTER (WHERE job.outcome = 'completed'),
       count(*) FILTER (WHERE job.outcome = 'failed'),
       count(*) FILTER (WHERE job.outcome = 'cancelled'),
       count(*) FILTER (WHERE job.live),
       count(*) FILTER (WHERE job.attempt - job.excused > 1)
FROM relevo.jobs AS job
WHERE job.tenant_id = %(tenant_id)s::uuid
  AND job.kind = 'cycle.dispatched'
  AND job.aggregate_id = %(cycle_id)s::uuid::text;

-- name: list_notifications
-- One page of a cycle's notifications by name, all of them or only those in trouble.
SELECT job.id,
       person.external_id,
       person.full_name,
       person.email,
       job.state,
       job.attempt - job.excused,
       job.available_at,
       job.finished_at,
       job.last_error,
       person.sort_key
FROM relevo.jobs AS job
JOIN evaluations.people AS person
    ON person.tenant_id = job.tenant_id
   AND person.id = (job.payload ->> 'evaluator_id')::uuid
WHERE job.tenant_id = %(tenant_id)s::uuid
  AND job.kind = 'cycle.dispatched'
  AND job.aggregate_id = %(cycle_id)s::uuid::text
  AND (
      NOT %(troubled_only)s::boolean
      OR job.outcome = 'failed'
      OR (job.live AND job.last_error IS NOT NULL)
  )
  AND (person.sort_key, job.id) > (%(after_key)s::text COLLATE "C", %(after_id)s::bigint)
ORDER BY person.sort_key, job.id
LIMIT %(limit)s::integer;
