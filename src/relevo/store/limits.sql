-- name: look_at_limits
-- Whether something limits what a worker may start from a queue, and in how many seconds the next
-- start that is limited by time may come.
SELECT
    count(*) > 0,
    min(next.start_in)::float8
FROM relevo.limits AS l
LEFT JOIN LATERAL (
    SELECT extract(epoch FROM min(p.taken_at) - now()) + l.seconds AS start_in
    FROM relevo.permits AS p
    WHERE l.measure = 'starts'
      AND l.scope <> 'lane'
      AND p.limit_id = l.id
      AND p.number <= l.most
      AND p.taken_at BETWEEN now() - l.seconds * interval '1 second' AND now() + interval '1 minute'
) AS next ON true
WHERE (l.scope = 'queue' AND l.name = %(queue)s::text)
   OR (l.scope IN ('kind', 'lane') AND l.name = ANY (%(kinds)s::text[]))
   OR l.scope = 'tenant';

-- name: find_limit
-- One limit as it stands.
SELECT
    l.id,
    l.most,
    l.seconds,
    l.actor
FROM relevo.limits AS l
WHERE l.scope = %(scope)s::text
  AND l.name = %(name)s::text
  AND l.measure = %(measure)s::text;

-- name: read_isolation
-- How the transaction isolates itself, without taking the snapshot that it may not have yet.
SHOW transaction_isolation;

-- name: require_no_snapshot
-- Fails where the transaction has a snapshot already.
SET TRANSACTION NOT DEFERRABLE;

-- name: bound_wait
-- Bounds how long the next locks are waited for: no claim can start while they are.
SET LOCAL lock_timeout = '2s';

-- name: lock_limits
-- Lets one transaction at a time change limits, waits for the claims under way, and holds new ones
-- back until the transaction ends: each has a lock on this table that conflicts, and takes its
-- snapshot after it has got it. So no claim that does not know a change can commit after it.
-- Nothing else waits: heartbeats, answers and readers of limits go on.
LOCK TABLE relevo.limits IN EXCLUSIVE MODE;

-- name: bound_rest
-- Bounds how long that lock is kept by somebody who forgets to commit.
SET LOCAL idle_in_transaction_session_timeout = '5s';

-- name: insert_limit
-- Adds a limit that is not there yet.
INSERT INTO relevo.limits (
    scope,
    name,
    measure,
    most,
    seconds,
    actor
)
VALUES (
    %(scope)s::text,
    %(name)s::text,
    %(measure)s::text,
    %(most)s::integer,
    %(seconds)s::float8,
    %(actor)s::text
)
RETURNING id;

-- name: change_limit
-- Changes how much a limit allows; what runs goes on.
UPDATE relevo.limits AS l
SET most = %(most)s::integer,
    seconds = %(seconds)s::float8,
    actor = %(actor)s::text,
    set_at = clock_timestamp()
WHERE l.id = %(id)s::bigint
RETURNING l.id;

-- name: take_running_permits
-- Gives a new limit's permits to the jobs that run already: they count from the beginning.
INSERT INTO relevo.permits (
    limit_id,
    for_tenant,
    for_lane,
    number,
    job_tenant,
    job_id,
    attempt,
    taken_at
)
SELECT
    l.id,
    running.for_tenant,
    running.for_lane,
    row_number() OVER (
        PARTITION BY
            running.for_tenant,
            running.for_lane
        ORDER BY
            running.available_at,
            running.id
    ),
    running.tenant_id,
    running.id,
    running.attempt,
    coalesce(running.started_at, clock_timestamp())
FROM relevo.limits AS l
CROSS JOIN LATERAL (
    SELECT
        j.tenant_id,
        j.id,
        j.attempt,
        j.available_at,
        j.started_at,
        CASE
            WHEN l.scope IN ('tenant', 'lane') THEN j.tenant_id
            ELSE '00000000-0000-0000-0000-000000000000'
        END AS for_tenant,
        CASE
            WHEN l.scope <> 'lane' THEN '00000000-0000-0000-0000-000000000000'
            -- Where it goes when it is claimed again.
            WHEN j.lane = '00000000-0000-0000-0000-000000000000' THEN relevo.lane_of(j.kind, j.lane_key)
            ELSE j.lane
        END AS for_lane
    FROM relevo.jobs AS j
    WHERE j.live
      AND j.worker IS NOT NULL
      AND CASE l.scope
          WHEN 'queue' THEN j.queue = l.name
          WHEN 'tenant' THEN l.name IN (j.tenant_id::text, '*')
          ELSE j.kind = l.name
      END
) AS running
WHERE l.id = %(id)s::bigint;

-- name: forget_tenant
-- Removes what a limit knows of one tenant.
DELETE FROM relevo.permits AS p
WHERE p.limit_id = %(id)s::bigint
  AND p.for_tenant = %(tenant)s::text::uuid;

-- name: hand_over_permits
-- Gives the permits of one limit to another one, which counts from now on what has taken them.
UPDATE relevo.permits AS p
SET limit_id = %(heir)s::bigint
WHERE p.limit_id = %(id)s::bigint;

-- name: delete_limit
-- Removes a limit and its permits.
WITH gone AS (
    DELETE FROM relevo.limits AS l
    WHERE l.scope = %(scope)s::text
      AND l.name = %(name)s::text
      AND l.measure = %(measure)s::text
    RETURNING l.id
),
permits AS (
    DELETE FROM relevo.permits AS p
    USING gone
    WHERE p.limit_id = gone.id
)
SELECT gone.id
FROM gone;

-- name: list_limits
-- Every limit, and how many of its permits are in use now, over all tenants and lanes.
SELECT
    l.scope,
    l.name,
    l.measure,
    l.most,
    l.seconds,
    l.set_at,
    l.actor,
    (
        SELECT count(*)
        FROM relevo.permits AS p
        WHERE p.limit_id = l.id
          AND CASE
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
FROM relevo.limits AS l
ORDER BY
    l.scope,
    l.name,
    l.measure;

-- name: list_declared
-- The limits that code has declared for some kinds.
SELECT
    l.scope,
    l.name,
    l.measure
FROM relevo.limits AS l
WHERE l.scope IN ('kind', 'lane')
  AND l.name = ANY (%(kinds)s::text[])
  AND l.actor IS NULL;

-- name: prune_permits
-- Removes permits that nobody has and nobody asked for lately, so that lanes that come once do
-- not stay for ever.
WITH old AS MATERIALIZED (
    SELECT p.ctid AS spot
    FROM relevo.permits AS p
    LEFT JOIN relevo.limits AS l ON l.id = p.limit_id
    WHERE p.taken_at < now() - greatest(coalesce(l.seconds, 0), 3600) * interval '1 second'
      AND NOT EXISTS (
          SELECT
          FROM relevo.jobs AS j
          -- An array of one, not "=": a plan for an empty table would read all jobs for each permit.
          WHERE j.tenant_id = ANY (ARRAY[p.job_tenant])
            AND j.id = p.job_id
            AND j.live
      )
    LIMIT %(limit)s::integer
    FOR UPDATE OF p SKIP LOCKED
),
pruned AS (
    DELETE FROM relevo.permits AS p
    WHERE p.ctid = ANY (ARRAY (SELECT old.spot FROM old))
    RETURNING p.number
)
SELECT count(*)
FROM pruned;
