-- name: watch_clock
-- The database's clock.
SELECT now();

-- name: watch_tenants
-- Whether there are at most so many tenants.
SELECT count(*) <= %(tenants)s::integer
FROM (
    SELECT
    FROM relevo.tenants
    LIMIT %(tenants)s::integer + 1
) AS t;

-- name: watch_queues
-- The queues that have live jobs: one step in the claim's index for each.
WITH RECURSIVE names AS (
    (
        SELECT j.queue
        FROM relevo.jobs AS j
        WHERE j.live
        ORDER BY j.queue
        LIMIT 1
    )
    UNION ALL
    SELECT n.queue
    FROM names
    CROSS JOIN LATERAL (
        SELECT j.queue
        FROM relevo.jobs AS j
        WHERE j.live
          AND j.queue > names.queue
        ORDER BY j.queue
        LIMIT 1
    ) AS n
)
SELECT names.queue
FROM names
LIMIT %(queues)s::integer;

-- name: watch_live
-- What waits and runs in some queues, by queue and worker: of each queue at most so many live
-- jobs, in the order of the claim's index.
SELECT
    q.queue,
    j.worker,
    count(*) FILTER (WHERE j.worker IS NULL AND j.available_at <= now()) AS due,
    count(*) FILTER (WHERE j.worker IS NULL AND j.available_at > now()) AS later,
    count(*) FILTER (WHERE j.worker IS NULL AND j.attempt > j.excused) AS retrying,
    count(*) FILTER (WHERE j.worker IS NOT NULL) AS running,
    count(*) FILTER (
        WHERE j.started_at > now() - (%(window)s::float8 + %(lag)s::float8) * interval '1 second'
          AND j.started_at <= now() - %(lag)s::float8 * interval '1 second'
    ) AS started,
    extract(
        epoch FROM now() - min(j.available_at) FILTER (
            WHERE j.worker IS NULL
              AND j.available_at <= now()
        )
    )::float8 AS oldest
FROM unnest(%(names)s::text[]) AS q (queue)
CROSS JOIN LATERAL (
    SELECT
        j.worker,
        j.available_at,
        j.started_at,
        j.attempt,
        j.excused
    FROM relevo.jobs AS j
    WHERE j.queue = q.queue
      AND j.live
    ORDER BY
        j.tenant_id,
        j.lane,
        j.priority,
        j.available_at,
        j.id
    LIMIT %(rows)s::integer
) AS j
GROUP BY
    q.queue,
    j.worker;

-- name: watch_heads
-- Of queues too long to be read: what runs and what is due first, from the head of each lane,
-- because a lane's jobs start in the order of its index.
SELECT
    q.queue,
    j.worker,
    count(*) FILTER (WHERE j.worker IS NOT NULL) AS running,
    count(*) FILTER (
        WHERE j.started_at > now() - (%(window)s::float8 + %(lag)s::float8) * interval '1 second'
          AND j.started_at <= now() - %(lag)s::float8 * interval '1 second'
    ) AS started,
    extract(
        epoch FROM now() - min(j.available_at) FILTER (
            WHERE j.worker IS NULL
              AND j.available_at <= now()
        )
    )::float8 AS oldest
FROM unnest(%(names)s::text[]) AS q (queue)
CROSS JOIN LATERAL (
    WITH RECURSIVE lanes AS (
        (
            SELECT
                j.tenant_id,
                j.lane,
                j.priority
            FROM relevo.jobs AS j
            WHERE j.queue = q.queue
              AND j.live
            ORDER BY
                j.tenant_id,
                j.lane,
                j.priority
            LIMIT 1
        )
        UNION ALL
        SELECT
            n.tenant_id,
            n.lane,
            n.priority
        FROM lanes
        CROSS JOIN LATERAL (
            SELECT
                j.tenant_id,
                j.lane,
                j.priority
            FROM relevo.jobs AS j
            WHERE j.queue = q.queue
              AND j.live
              AND (j.tenant_id, j.lane, j.priority) > (lanes.tenant_id, lanes.lane, lanes.priority)
            ORDER BY
                j.tenant_id,
                j.lane,
                j.priority
            LIMIT 1
        ) AS n
    )
    SELECT
        lanes.tenant_id,
        lanes.lane,
        lanes.priority
    FROM lanes
    LIMIT %(lanes)s::integer
) AS lane
CROSS JOIN LATERAL (
    SELECT
        j.worker,
        j.available_at,
        j.started_at
    FROM relevo.jobs AS j
    WHERE j.queue = q.queue
      AND j.tenant_id = lane.tenant_id
      AND j.lane = lane.lane
      AND j.priority = lane.priority
      AND j.live
    ORDER BY
        j.available_at,
        j.id
    LIMIT %(head)s::integer
) AS j
GROUP BY
    q.queue,
    j.worker;

-- name: watch_ended
-- How many jobs ended within the window, by queue and outcome, and how many of those that have
-- ended since it began also started in it: one range of the index for each tenant and outcome,
-- and at most so many rows in all.
SELECT
    ended.queue,
    ended.outcome,
    count(*) AS seen,
    count(*) FILTER (
        WHERE ended.finished_at <= now() - %(lag)s::float8 * interval '1 second'
    ) AS jobs,
    count(*) FILTER (
        WHERE ended.started_at > now() - (%(window)s::float8 + %(lag)s::float8) * interval '1 second'
          AND ended.started_at <= now() - %(lag)s::float8 * interval '1 second'
    ) AS started
FROM (
    SELECT
        j.queue,
        j.outcome,
        j.started_at,
        j.finished_at
    FROM (
        SELECT t.id
        FROM relevo.tenants AS t
        ORDER BY t.id
        LIMIT %(tenants)s::integer
    ) AS t
    -- The rarest first: a flood of completed jobs must not hide the failed.
    CROSS JOIN unnest(ARRAY['failed', 'cancelled', 'completed']) AS o (outcome)
    CROSS JOIN LATERAL (
        SELECT
            j.queue,
            j.outcome,
            j.started_at,
            j.finished_at
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.outcome = o.outcome
          AND j.outcome IS NOT NULL
          AND j.finished_at > now() - (%(window)s::float8 + %(lag)s::float8) * interval '1 second'
        ORDER BY j.finished_at DESC
        LIMIT %(rows)s::integer
    ) AS j
    LIMIT %(rows)s::integer
) AS ended
GROUP BY
    ended.queue,
    ended.outcome;

-- name: watch_workers
-- The sessions that exist, since when they were last heard of and for how long they still hold.
SELECT
    w.id,
    w.name,
    w.queues,
    w.concurrency,
    w.version,
    w.started_at,
    extract(epoch FROM clock_timestamp() - w.heartbeat_at)::float8 AS silent,
    extract(epoch FROM w.expires_at - clock_timestamp())::float8 AS lease,
    w.stopping
FROM relevo.workers AS w
ORDER BY
    w.name,
    w.id
LIMIT %(workers)s::integer;

-- name: watch_pauses
-- What rests, until when and why; a tenant by its slug.
SELECT
    p.scope,
    coalesce(t.slug, p.name) AS name,
    p.paused_until,
    p.reason
FROM relevo.pauses AS p
LEFT JOIN relevo.tenants AS t
    ON t.id = CASE WHEN p.scope = 'tenant' THEN p.name::uuid END
WHERE p.paused_until IS NULL
   OR p.paused_until > now()
ORDER BY
    p.scope,
    name
LIMIT %(pauses)s::integer;

-- name: watch_limits
-- Every limit, and how many of its permits are in use; of each limit a bounded number is read.
SELECT
    l.scope,
    coalesce(t.slug, l.name) AS name,
    l.measure,
    l.most,
    l.seconds,
    l.set_at,
    l.actor,
    taken.used,
    taken.seen < %(permits)s::integer AS is_whole
FROM relevo.limits AS l
LEFT JOIN relevo.tenants AS t
    ON t.id = CASE WHEN l.scope = 'tenant' AND l.name <> '*' THEN l.name::uuid END
CROSS JOIN LATERAL (
    SELECT
        count(*) AS seen,
        count(*) FILTER (
            WHERE CASE
                -- As the claim counts: what lies ahead was made before the clock went back.
                WHEN l.measure = 'starts'
                THEN p.taken_at BETWEEN now() - l.seconds * interval '1 second' AND now() + interval '1 minute'
                ELSE EXISTS (
                    SELECT
                    FROM relevo.jobs AS j
                    WHERE j.tenant_id = p.job_tenant
                      AND j.id = p.job_id
                      AND CASE
                          WHEN l.measure = 'order' AND p.number = 1 THEN j.live
                          ELSE j.worker IS NOT NULL AND j.attempt = p.attempt
                      END
                )
            END
        ) AS used
    FROM (
        SELECT
            p.number,
            p.attempt,
            p.job_tenant,
            p.job_id,
            p.taken_at
        FROM relevo.permits AS p
        WHERE p.limit_id = l.id
        LIMIT %(permits)s::integer
    ) AS p
) AS taken
ORDER BY
    l.scope,
    name,
    l.measure
LIMIT %(limits)s::integer;
