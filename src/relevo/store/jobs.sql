-- name: insert_job
-- Adds one job, wakes an idle worker of its queue, and answers no row where a unique index refused it.
WITH created AS (
    INSERT INTO relevo.jobs (
        tenant_id,
        queue,
        kind,
        lane,
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
        queue,
        available_at
),
woken AS (
    SELECT pg_notify('relevo', created.queue)
    FROM created
    WHERE created.available_at <= now()
      AND EXISTS (
          SELECT
          FROM relevo.workers AS w
          WHERE w.idle
            AND created.queue = ANY (w.queues)
      )
)
SELECT
    created.id,
    (SELECT count(*) FROM woken) AS woken
FROM created;

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
            %(keys)s::text[]
        ) WITH ORDINALITY AS u (payload, aggregate_id, key, place)
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
        %(lane)s::uuid,
        %(priority)s::smallint,
        coalesce(%(available_at)s::timestamptz, now()) + %(delay)s::float8 * interval '1 second',
        %(max_attempts)s::integer,
        input.aggregate_id,
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

-- name: claim_jobs
-- Picks due jobs of one queue, marks them as this worker's and counts the attempt, in one trip.
-- This is the sweep: it reads every lane from its oldest row.
-- The walk goes from lane to lane after the cursor, tenant by tenant, so nobody starves.
WITH RECURSIVE walk AS (
    (
        SELECT
            j.tenant_id,
            j.lane
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.live
          AND (j.tenant_id, j.lane) > (%(after_tenant)s::uuid, %(after_lane)s::uuid)
        ORDER BY
            j.tenant_id,
            j.lane
        LIMIT 1
    )
    UNION ALL
    SELECT
        n.tenant_id,
        n.lane
    FROM walk
    CROSS JOIN LATERAL (
        SELECT
            j.tenant_id,
            j.lane
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.live
          AND (j.tenant_id, j.lane) > (walk.tenant_id, walk.lane)
        ORDER BY
            j.tenant_id,
            j.lane
        LIMIT 1
    ) AS n
),
picked AS MATERIALIZED (
    SELECT due.place
    FROM (
        SELECT
        WHERE NOT EXISTS (
            SELECT
            FROM relevo.queues AS q
            WHERE q.name = %(queue)s::text
              AND q.paused_until > now()
        )
    ) AS open
    CROSS JOIN walk
    -- Lane by lane, and inside a lane by priority: a tenant with urgent work cannot hold up the others.
    CROSS JOIN LATERAL (
        SELECT ready.place
        FROM unnest(%(priorities)s::smallint[]) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT j.ctid AS place
            FROM relevo.jobs AS j
            WHERE j.queue = %(queue)s::text
              AND j.tenant_id = walk.tenant_id
              AND j.lane = walk.lane
              AND j.priority = p.priority
              AND j.live
              AND j.available_at <= now()
              AND j.worker IS NULL
              AND j.kind = ANY (%(kinds)s::text[])
            ORDER BY
                j.available_at,
                j.id
            LIMIT %(share)s::integer
            FOR UPDATE SKIP LOCKED
        ) AS ready
        LIMIT %(share)s::integer
    ) AS due
    LIMIT %(limit)s::integer
),
-- A claim cannot commit after its session has ended: the end has to wait for this lock.
-- It is taken only where something was picked, so an empty claim writes nothing.
me AS MATERIALIZED (
    SELECT w.id
    FROM relevo.workers AS w
    WHERE w.id = %(worker)s::bigint
      AND EXISTS (SELECT FROM picked)
    FOR KEY SHARE OF w
)
UPDATE relevo.jobs AS j
SET state = 'running',
    -- Whatever somebody wrote into a count: one row must not make the statement overflow.
    attempt = least(j.attempt, 2147483646) + 1,
    worker = %(worker)s::bigint,
    started_at = clock_timestamp(),
    waiting_key = NULL
WHERE j.ctid = ANY (ARRAY (SELECT picked.place FROM picked CROSS JOIN me))
RETURNING
    j.tenant_id,
    j.id,
    j.attempt,
    j.excused,
    j.losses,
    j.max_attempts,
    j.kind,
    j.payload::text,
    j.aggregate_id,
    j.headers::text,
    j.actor,
    j.lane,
    j.priority,
    j.available_at,
    j.started_at;

-- name: claim_lanes
-- The same claim from lanes that the worker remembers, in each behind the place that it reached.
WITH picked AS MATERIALIZED (
    SELECT due.place
    FROM (
        SELECT
        WHERE NOT EXISTS (
            SELECT
            FROM relevo.queues AS q
            WHERE q.name = %(queue)s::text
              AND q.paused_until > now()
        )
    ) AS open
    CROSS JOIN unnest(
        %(tenant_ids)s::uuid[],
        %(lanes)s::uuid[],
        %(priorities)s::smallint[],
        %(floors)s::timestamptz[],
        %(floor_ids)s::bigint[]
    ) AS probe (tenant_id, lane, priority, floor, floor_id)
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.tenant_id = probe.tenant_id
          AND j.lane = probe.lane
          AND j.priority = probe.priority
          AND j.live
          AND (j.available_at, j.id) > (probe.floor, probe.floor_id)
          AND j.available_at <= now()
          AND j.worker IS NULL
          AND j.kind = ANY (%(kinds)s::text[])
        ORDER BY
            j.available_at,
            j.id
        LIMIT %(share)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS due
    LIMIT %(limit)s::integer
),
-- A claim cannot commit after its session has ended: the end has to wait for this lock.
-- It is taken only where something was picked, so an empty claim writes nothing.
me AS MATERIALIZED (
    SELECT w.id
    FROM relevo.workers AS w
    WHERE w.id = %(worker)s::bigint
      AND EXISTS (SELECT FROM picked)
    FOR KEY SHARE OF w
)
UPDATE relevo.jobs AS j
SET state = 'running',
    attempt = j.attempt + 1,
    worker = %(worker)s::bigint,
    started_at = clock_timestamp(),
    waiting_key = NULL
WHERE j.ctid = ANY (ARRAY (SELECT picked.place FROM picked CROSS JOIN me))
RETURNING
    j.tenant_id,
    j.id,
    j.attempt,
    j.excused,
    j.losses,
    j.max_attempts,
    j.kind,
    j.payload::text,
    j.aggregate_id,
    j.headers::text,
    j.actor,
    j.lane,
    j.priority,
    j.available_at,
    j.started_at;

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
        WHEN j.key IS NULL OR j.key_expires_at IS NOT NULL
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
            WHEN h.state <> 'available' AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
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

-- name: rescue_jobs
-- Takes back the jobs of sessions that have ended: one pass over the live jobs, the same bound as any failure.
WITH held AS MATERIALIZED (
    SELECT
        j.tenant_id,
        j.id,
        CASE
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.attempt - j.excused >= j.max_attempts THEN 'failed'
            ELSE 'available'
        END AS state
    FROM relevo.jobs AS j
    WHERE j.live
      AND j.worker = ANY (%(workers)s::bigint[])
    -- A row that somebody holds (a transaction that its dead handler left open) keeps its
    -- session noted for the next rescue; it must not hold up all the others.
    FOR UPDATE OF j SKIP LOCKED
),
lost AS (
    UPDATE relevo.jobs AS j
    SET state = h.state,
        outcome = CASE WHEN h.state <> 'available' THEN h.state END,
        live = h.state = 'available',
        finished_at = CASE WHEN h.state <> 'available' THEN clock_timestamp() END,
        prune_at = CASE
            WHEN h.state <> 'available'
             AND j.kind <> ALL (%(kept_kinds)s::text[])
             AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
            THEN greatest(clock_timestamp() + %(keep)s::float8 * interval '1 second', j.key_expires_at)
        END,
        available_at = least(j.available_at, clock_timestamp()),
        worker = NULL,
        cancel_requested_at = NULL,
        losses = least(j.losses, j.attempt - 1) + 1,
        last_error = 'worker lost'
    FROM held AS h
    WHERE j.tenant_id = ANY (ARRAY[h.tenant_id])
      AND j.id = h.id
    RETURNING
        j.tenant_id,
        j.id,
        j.attempt,
        j.state,
        j.queue,
        j.kind,
        j.started_at,
        j.available_at
),
history AS (
    INSERT INTO relevo.attempts (
        tenant_id,
        job_id,
        attempt,
        outcome,
        started_at,
        retry_at,
        error
    )
    SELECT
        l.tenant_id,
        l.id,
        l.attempt,
        CASE WHEN l.state = 'available' THEN 'lost' ELSE l.state END,
        l.started_at,
        CASE WHEN l.state = 'available' THEN l.available_at END,
        'worker lost'
    FROM lost AS l
    -- As in settle_jobs: one such row must not keep all the others from being rescued.
    ON CONFLICT DO NOTHING
)
SELECT
    l.tenant_id,
    l.id,
    l.state,
    l.queue,
    l.kind
FROM lost AS l;

-- name: postpone_unserved_jobs
-- Puts off due jobs at the head of a queue whose kind no live worker of that queue serves.
WITH serving AS MATERIALIZED (
    SELECT w.kinds
    FROM relevo.workers AS w
    WHERE w.expires_at > clock_timestamp()
      AND %(queue)s::text = ANY (w.queues)
),
head AS MATERIALIZED (
    SELECT
        j.ctid AS place,
        j.kind
    FROM relevo.jobs AS j
    WHERE j.queue = %(queue)s::text
      AND j.live
      AND j.available_at <= now()
      AND j.worker IS NULL
    ORDER BY
        j.queue,
        j.tenant_id,
        j.lane,
        j.priority,
        j.available_at,
        j.id
    LIMIT %(limit)s::integer
),
-- Only what is put off is locked: a claim that met a locked head would find nothing due.
postponed AS (
    UPDATE relevo.jobs AS j
    SET available_at = now() + %(delay)s::float8 * interval '1 second'
    WHERE j.ctid = ANY (
        ARRAY (
            SELECT head.place
            FROM head
            -- A queue that no live worker serves at all is only waiting for one.
            WHERE EXISTS (SELECT FROM serving)
              AND NOT EXISTS (
                  SELECT
                  FROM serving AS s
                  WHERE head.kind = ANY (s.kinds)
              )
        )
    )
      AND j.live
      AND j.worker IS NULL
    RETURNING j.kind
)
SELECT
    p.kind,
    count(*) AS jobs
FROM postponed AS p
GROUP BY p.kind;

-- name: release_unknown_jobs
-- Hands back jobs that this session holds without knowing it: the answer to their claim was lost.
WITH released AS (
    UPDATE relevo.jobs AS j
    SET state = CASE WHEN j.cancel_requested_at IS NULL THEN 'available' ELSE 'cancelled' END,
        outcome = CASE WHEN j.cancel_requested_at IS NULL THEN NULL ELSE 'cancelled' END,
        live = j.cancel_requested_at IS NULL,
        finished_at = CASE WHEN j.cancel_requested_at IS NULL THEN NULL ELSE clock_timestamp() END,
        available_at = least(j.available_at, clock_timestamp()),
        worker = NULL,
        cancel_requested_at = NULL,
        excused = least(j.excused, j.attempt - 1) + 1
    WHERE j.live
      AND j.worker = %(worker)s::bigint
      AND j.id <> ALL (%(known)s::bigint[])
    RETURNING
        j.tenant_id,
        j.id,
        j.attempt,
        j.state,
        j.started_at,
        j.available_at
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
        r.tenant_id,
        r.id,
        r.attempt,
        CASE WHEN r.state = 'available' THEN 'released' ELSE r.state END,
        %(worker)s::bigint,
        r.started_at,
        CASE WHEN r.state = 'available' THEN r.available_at END,
        'the answer to the claim was lost'
    FROM released AS r
    ON CONFLICT DO NOTHING
)
SELECT count(*)
FROM released;

-- name: prune_jobs
-- Deletes finished jobs whose retention is over, a few at a time.
WITH old AS MATERIALIZED (
    SELECT gone.place
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now()
          AND NOT j.live
        ORDER BY j.prune_at
        LIMIT %(limit)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS gone
    LIMIT %(limit)s::integer
),
pruned AS (
    DELETE FROM relevo.jobs AS j
    WHERE j.ctid = ANY (ARRAY (SELECT old.place FROM old))
    RETURNING j.id
)
SELECT count(*)
FROM pruned;

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
  AND (%(retrying)s::boolean IS NULL OR (j.state = 'available' AND j.attempt > 0) = %(retrying)s::boolean)
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
-- keeps its end: the row is read again under its lock.
WITH asked AS (
    UPDATE relevo.jobs AS j
    SET state = CASE j.state WHEN 'available' THEN 'cancelled' ELSE j.state END,
        live = j.state <> 'available',
        outcome = CASE j.state WHEN 'available' THEN 'cancelled' END,
        finished_at = CASE j.state WHEN 'available' THEN clock_timestamp() END,
        cancel_requested_at = now()
    WHERE j.tenant_id = %(tenant_id)s::uuid
      AND j.kind = %(kind)s::text
      AND j.aggregate_id = %(aggregate_id)s::text
      AND j.live
    RETURNING j.state
)
SELECT
    count(*) FILTER (WHERE asked.state = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE asked.state <> 'cancelled') AS asked
FROM asked;

-- name: count_jobs
-- How many jobs of a tenant stand where, by queue.
SELECT
    j.queue,
    CASE WHEN j.state = 'available' AND j.attempt > 0 THEN 'retrying' ELSE j.state END AS state,
    count(*) AS jobs
FROM relevo.jobs AS j
WHERE j.tenant_id = %(tenant_id)s::uuid
  AND (%(aggregate_id)s::text IS NULL OR j.aggregate_id = %(aggregate_id)s::text)
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: list_waiting
-- How many jobs of all tenants are due, and how many later, by queue and kind, and how long they wait.
SELECT
    j.queue,
    j.kind,
    count(*) FILTER (WHERE j.available_at <= now()) AS due,
    count(*) FILTER (WHERE j.available_at > now()) AS later,
    greatest(0, extract(epoch FROM now() - min(j.available_at)))::float8 AS seconds
FROM relevo.jobs AS j
WHERE j.state = 'available'
GROUP BY
    j.queue,
    j.kind
ORDER BY
    j.queue,
    j.kind;
