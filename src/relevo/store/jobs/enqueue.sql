-- name: insert_job
-- Adds one job, wakes an idle worker of its queue, and answers no row where a unique index refused it.
INSERT INTO relevo.jobs (
    tenant_id,
    queue,
    kind,
    lane,
    lane_key,
    priority,
    available_at,
    max_attempts,
    aggregate_id,
    waiting_key,
    live_key,
    key,
    key_expires_at,
    actor,
    payload,
    headers
)
VALUES (
    %(tenant_id)s::uuid,
    %(queue)s::text,
    %(kind)s::text,
    %(lane)s::uuid,
    %(lane_key)s::text,
    %(priority)s::smallint,
    coalesce(%(available_at)s::timestamptz, now()) + %(delay)s::float8 * interval '1 second',
    %(max_attempts)s::integer,
    %(aggregate_id)s::text,
    %(waiting_key)s::text,
    %(live_key)s::text,
    %(key)s::text,
    now() + %(key_for)s::float8 * interval '1 second',
    %(actor)s::text,
    %(payload)s::text::jsonb,
    %(headers)s::text::jsonb
)
ON CONFLICT DO NOTHING
RETURNING
    id,
    CASE
        WHEN available_at <= now()
            AND EXISTS (
                SELECT
                FROM relevo.workers AS w
                WHERE w.idle
                  AND jobs.queue = ANY (w.queues)
            )
        THEN pg_notify('relevo', jobs.queue) IS NOT NULL
        ELSE false
    END AS woken;

-- name: insert_jobs
-- Adds many jobs of one kind and tenant, and answers for each place of the input whether it was created.
WITH input AS (
    SELECT
        nextval('relevo.jobs_id_seq') AS id,
        sorted.*
    FROM (
        SELECT u.*
        FROM unnest(
            %(payloads)s::text[],
            %(aggregate_ids)s::text[],
            %(keys)s::text[],
            %(lanes)s::uuid[],
            %(lane_keys)s::text[]
        ) WITH ORDINALITY AS u (payload, aggregate_id, key, lane, lane_key, place)
        -- Two transactions with the same keys meet them in the same order, so they cannot deadlock.
        ORDER BY u.key, u.aggregate_id, u.place
    ) AS sorted
),
created AS (
    INSERT INTO relevo.jobs (
        id,
        tenant_id,
        queue,
        kind,
        lane,
        lane_key,
        priority,
        available_at,
        max_attempts,
        aggregate_id,
        waiting_key,
        live_key,
        key,
        key_expires_at,
        actor,
        payload,
        headers
    )
    SELECT
        input.id,
        %(tenant_id)s::uuid,
        %(queue)s::text,
        %(kind)s::text,
        coalesce(input.lane, %(lane)s::uuid),
        coalesce(input.lane_key, %(lane_key)s::text),
        %(priority)s::smallint,
        coalesce(%(available_at)s::timestamptz, now()) + %(delay)s::float8 * interval '1 second',
        %(max_attempts)s::integer,
        coalesce(input.aggregate_id, %(aggregate_id)s::text),
        CASE WHEN %(key_mode)s::text = 'waiting_key' THEN input.key END,
        CASE WHEN %(key_mode)s::text = 'live_key' THEN input.key END,
        CASE WHEN %(key_mode)s::text = 'key' THEN input.key END,
        CASE WHEN input.key IS NOT NULL THEN now() + %(key_for)s::float8 * interval '1 second' END,
        %(actor)s::text,
        input.payload::jsonb,
        %(headers)s::text::jsonb
    FROM input
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT
    input.place,
    input.id
FROM input
JOIN created USING (id);

-- name: wake_workers
-- Tells the idle workers of a queue that something is due; harmless where there are none.
SELECT pg_notify('relevo', %(queue)s::text)
WHERE EXISTS (
    SELECT
    FROM relevo.workers AS w
    WHERE w.idle
      AND %(queue)s::text = ANY (w.queues)
);

-- name: release_expired_keys
-- Frees keys whose time is over, so that the next insert may take them.
UPDATE relevo.jobs
SET key = NULL,
    key_expires_at = NULL
WHERE tenant_id = %(tenant_id)s::uuid
  AND kind = %(kind)s::text
  AND key = ANY (%(keys)s::text[])
  AND key_expires_at <= now()
RETURNING id;

-- name: find_key_holders
-- Says which jobs hold the given keys now: one look into one unique index for each key.
SELECT
    wanted.key AS held,
    holder.id
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT j.id
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.kind = %(kind)s::text
      AND j.key = wanted.key
    LIMIT 1
) AS holder
WHERE %(key_mode)s::text = 'key'
UNION ALL
SELECT
    wanted.key,
    holder.id
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT j.id
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.kind = %(kind)s::text
      AND j.live_key = wanted.key
      AND j.live
    LIMIT 1
) AS holder
WHERE %(key_mode)s::text = 'live_key'
UNION ALL
SELECT
    wanted.key,
    holder.id
FROM unnest(%(keys)s::text[]) AS wanted (key)
CROSS JOIN LATERAL (
    SELECT j.id
    FROM relevo.jobs AS j
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.kind = %(kind)s::text
      AND j.waiting_key = wanted.key
    LIMIT 1
) AS holder
WHERE %(key_mode)s::text = 'waiting_key';
