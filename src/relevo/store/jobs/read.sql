-- name: list_jobs
-- One page of jobs, newest first, after the given id.
SELECT
    j.tenant_id,
    j.id,
    j.queue,
    j.kind,
    j.state,
    j.attempt,
    j.excused,
    j.losses,
    j.max_attempts,
    j.priority,
    j.available_at,
    j.created_at,
    j.started_at,
    j.finished_at,
    j.worker,
    j.aggregate_id,
    coalesce(j.key, j.live_key, j.waiting_key) AS key,
    j.actor,
    j.requeued_at,
    j.requeued_by,
    j.last_error,
    j.payload::text,
    j.result::text
FROM relevo.jobs AS j
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND (%(before)s::bigint IS NULL OR j.id < %(before)s::bigint)
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
  AND (%(kind)s::text IS NULL OR j.kind = %(kind)s::text)
  AND (%(aggregate_id)s::text IS NULL OR j.aggregate_id = %(aggregate_id)s::text)
  AND (%(state)s::text IS NULL OR j.state = %(state)s::text)
  AND (%(retrying)s::boolean IS NULL OR (j.state = 'available' AND j.attempt > j.excused) = %(retrying)s::boolean)
  AND (%(due)s::boolean IS NULL OR (j.available_at <= now()) = %(due)s::boolean)
ORDER BY j.id DESC
LIMIT %(limit)s::integer;

-- name: show_job
-- One job as its row says.
SELECT
    j.tenant_id,
    j.id,
    j.queue,
    j.kind,
    j.state,
    j.attempt,
    j.excused,
    j.losses,
    j.max_attempts,
    j.priority,
    j.available_at,
    j.created_at,
    j.started_at,
    j.finished_at,
    j.worker,
    j.aggregate_id,
    coalesce(j.key, j.live_key, j.waiting_key) AS key,
    j.actor,
    j.requeued_at,
    j.requeued_by,
    j.last_error,
    j.payload::text,
    j.result::text
FROM relevo.jobs AS j
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND j.id = %(id)s::bigint;

-- name: count_jobs
-- How many jobs of a tenant stand where, by queue.
SELECT
    j.queue,
    CASE WHEN j.state = 'available' AND j.attempt > j.excused THEN 'retrying' ELSE j.state END AS state,
    count(*) AS jobs
FROM relevo.jobs AS j
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND (%(aggregate_id)s::text IS NULL OR j.aggregate_id = %(aggregate_id)s::text)
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: list_waiting
-- How many jobs of all tenants are due, how many later and how many of these soon, by queue and
-- kind, and how long they wait: since they were due, and since they were made or last touched.
SELECT
    j.queue,
    j.kind,
    count(*) FILTER (WHERE j.available_at <= now()) AS due,
    count(*) FILTER (WHERE j.available_at > now()) AS later,
    count(*) FILTER (
        WHERE j.available_at > now()
          AND j.available_at <= now() + %(soon)s::float8 * interval '1 second'
    ) AS soon,
    greatest(0, extract(epoch FROM now() - min(j.available_at)))::float8 AS seconds,
    coalesce(
        extract(
            epoch FROM now() - min(greatest(j.created_at, j.started_at, j.requeued_at)) FILTER (
                WHERE j.available_at <= now() + %(soon)s::float8 * interval '1 second'
            )
        ),
        0
    )::float8 AS age
FROM relevo.jobs AS j
WHERE j.state = 'available'
GROUP BY
    j.queue,
    j.kind
ORDER BY
    j.queue,
    j.kind;
