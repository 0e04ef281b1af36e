-- name: rescue_jobs
-- Takes back the jobs of sessions that have ended, by the same bound as any failure, and forgets
-- the sessions. It is one pass over the live jobs, however many sessions there are.
WITH found AS MATERIALIZED (
    SELECT
        j.tenant_id,
        j.id,
        j.worker
    FROM relevo.jobs AS j
    WHERE j.live
      AND j.worker = ANY (%(workers)s::bigint[])
),
held AS MATERIALIZED (
    SELECT
        j.tenant_id,
        j.id,
        j.worker,
        CASE
            WHEN j.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN j.attempt - j.excused >= j.max_attempts THEN 'failed'
            ELSE 'available'
        END AS state
    FROM found AS f
    -- An array of one for the plan's sake, as in complete_jobs.
    JOIN relevo.jobs AS j
        ON j.tenant_id = ANY (ARRAY[f.tenant_id])
       AND j.id = f.id
    -- That it is live goes without saying; said, the plan of an empty table would take the claim's index.
    WHERE j.worker = f.worker
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
),
-- Nobody claims for a session that has ended, so those of which every job was taken back are done.
forgotten AS (
    DELETE FROM relevo.ended_workers AS e
    WHERE e.id = ANY (%(workers)s::bigint[])
      AND e.id <> ALL (
          ARRAY (
              SELECT w.worker
              FROM (
                  SELECT
                      found.worker,
                      1 AS jobs
                  FROM found
                  UNION ALL
                  SELECT
                      held.worker,
                      -1
                  FROM held
              ) AS w
              GROUP BY w.worker
              HAVING sum(w.jobs) > 0
          )
      )
)
SELECT
    l.tenant_id,
    l.id,
    l.state,
    l.queue,
    l.kind
FROM lost AS l;

-- name: postpone_unserved_jobs
-- Puts off due jobs at the head of a queue whose kind no live worker of that queue serves. Those in
-- a lane of their own stay: there they are in nobody's way, and their times are their order.
WITH RECURSIVE serving AS MATERIALIZED (
    SELECT w.kinds
    FROM relevo.workers AS w
    WHERE w.expires_at > clock_timestamp()
      AND %(queue)s::text = ANY (w.queues)
),
walk AS (
    (
        SELECT j.tenant_id
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.live
        ORDER BY j.tenant_id
        LIMIT 1
    )
    UNION ALL
    SELECT n.tenant_id
    FROM walk
    CROSS JOIN LATERAL (
        SELECT j.tenant_id
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.live
          AND j.tenant_id > walk.tenant_id
        ORDER BY j.tenant_id
        LIMIT 1
    ) AS n
),
-- Priority by priority, so that what is due later is never read.
head AS MATERIALIZED (
    SELECT due.*
    FROM walk
    CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::smallint[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT
            j.ctid AS place,
            j.kind
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.tenant_id = walk.tenant_id
          AND j.lane = '00000000-0000-0000-0000-000000000000'
          AND j.priority = p.priority
          AND j.live
          AND j.available_at <= now()
          AND j.worker IS NULL
        ORDER BY
            j.available_at,
            j.id
        LIMIT %(limit)s::integer
    ) AS due
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
              AND NOT EXISTS (
                  SELECT
                  FROM relevo.limits AS l
                  WHERE l.scope = 'lane'
                    AND l.name = head.kind
                    AND l.measure = 'order'
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
        prune_at = CASE
            WHEN j.cancel_requested_at IS NOT NULL
             AND j.kind <> ALL (%(kept_kinds)s::text[])
             AND (j.key IS NULL OR j.key_expires_at IS NOT NULL)
            THEN greatest(clock_timestamp() + %(keep)s::float8 * interval '1 second', j.key_expires_at)
        END,
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
