-- name: claim_jobs
-- Picks due jobs of one queue, marks them as this worker's and counts the attempt, in one trip.
-- This is the sweep: it reads every lane from its oldest row.
-- The walk goes from lane to lane after the cursor, tenant by tenant, so nobody starves.
WITH RECURSIVE entrance AS (
    -- Never a row: the lock on the table is what whoever changes limits waits for.
    SELECT
    FROM relevo.limits
    WHERE false
    FOR KEY SHARE
),
walk AS (
    SELECT
        %(after_tenant)s::uuid AS tenant_id,
        %(after_lane)s::uuid AS lane,
        0 AS met,
        1 AS next
    UNION ALL
    SELECT
        n.tenant_id,
        n.lane,
        walk.met + 1,
        walk.next + n.is_known
    FROM walk
    CROSS JOIN LATERAL (
        (
            SELECT
                j.tenant_id,
                j.lane,
                0 AS is_known
            FROM relevo.jobs AS j
            WHERE j.queue = %(queue)s::text
              AND j.live
              AND (j.tenant_id, j.lane) > (walk.tenant_id, walk.lane)
              AND (j.tenant_id, j.lane) < (
                  (%(known_tenants)s::uuid[])[walk.next],
                  (%(known_lanes)s::uuid[])[walk.next]
              )
            ORDER BY
                j.tenant_id,
                j.lane
            LIMIT 1
        )
        UNION ALL
        -- Known lanes are met unseen: the entries of what has ended are not read for that.
        SELECT
            (%(known_tenants)s::uuid[])[walk.next],
            (%(known_lanes)s::uuid[])[walk.next],
            1
        WHERE walk.next < cardinality(%(known_lanes)s::uuid[])
        LIMIT 1
    ) AS n
    WHERE walk.met < %(visits)s::integer
),
picked AS MATERIALIZED (
    SELECT due.place
    FROM (
        SELECT
        WHERE NOT EXISTS (
            SELECT
            FROM relevo.pauses AS p
            WHERE p.scope = 'queue'
              AND p.name = %(queue)s::text
              AND coalesce(p.paused_until > now(), true)
        )
          -- Under a limit only claim_limited may start anything.
          AND NOT EXISTS (
            SELECT
            FROM relevo.limits AS l
            WHERE (l.scope = 'queue' AND l.name = %(queue)s::text)
               OR (l.scope IN ('kind', 'lane') AND l.name = ANY (%(kinds)s::text[]))
               OR l.scope = 'tenant'
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
              AND j.kind = ANY (
                  ARRAY (
                      SELECT k.kind
                      FROM unnest(%(kinds)s::text[]) AS k (kind)
                      WHERE NOT EXISTS (
                          SELECT
                          FROM relevo.pauses AS p
                          WHERE p.scope = 'kind'
                            AND p.name = k.kind
                            AND coalesce(p.paused_until > now(), true)
                      )
                  )
              )
            ORDER BY
                j.available_at,
                j.id
            LIMIT %(share)s::integer
            FOR UPDATE SKIP LOCKED
        ) AS ready
        LIMIT %(share)s::integer
    ) AS due
    WHERE walk.met > 0
      -- A tenant that rests is passed by.
      AND walk.tenant_id <> ALL (
        ARRAY (
            SELECT p.name::uuid
            FROM relevo.pauses AS p
            WHERE p.scope = 'tenant'
              AND coalesce(p.paused_until > now(), true)
        )
    )
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
    -- Whatever somebody wrote into a count: one row must not stop the statement.
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
WITH entrance AS (
    -- Never a row: the lock on the table is what whoever changes limits waits for.
    SELECT
    FROM relevo.limits
    WHERE false
    FOR KEY SHARE
),
picked AS MATERIALIZED (
    SELECT due.place
    FROM (
        SELECT
        WHERE NOT EXISTS (
            SELECT
            FROM relevo.pauses AS p
            WHERE p.scope = 'queue'
              AND p.name = %(queue)s::text
              AND coalesce(p.paused_until > now(), true)
        )
          -- Under a limit only claim_limited may start anything.
          AND NOT EXISTS (
            SELECT
            FROM relevo.limits AS l
            WHERE (l.scope = 'queue' AND l.name = %(queue)s::text)
               OR (l.scope IN ('kind', 'lane') AND l.name = ANY (%(kinds)s::text[]))
               OR l.scope = 'tenant'
        )
    ) AS open
    CROSS JOIN unnest(
        %(tenant_ids)s::uuid[],
        %(lanes)s::uuid[],
        %(priorities)s::smallint[],
        %(floors)s::timestamptz[],
        %(floor_ids)s::bigint[],
        %(shares)s::integer[]
    ) AS probe (tenant_id, lane, priority, floor, floor_id, share)
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
          AND j.kind = ANY (
              ARRAY (
                  SELECT k.kind
                  FROM unnest(%(kinds)s::text[]) AS k (kind)
                  WHERE NOT EXISTS (
                      SELECT
                      FROM relevo.pauses AS p
                      WHERE p.scope = 'kind'
                        AND p.name = k.kind
                        AND coalesce(p.paused_until > now(), true)
                  )
              )
          )
        ORDER BY
            j.available_at,
            j.id
        LIMIT probe.share
        FOR UPDATE SKIP LOCKED
    ) AS due
    -- A tenant that rests is passed by.
    WHERE probe.tenant_id <> ALL (
        ARRAY (
            SELECT p.name::uuid
            FROM relevo.pauses AS p
            WHERE p.scope = 'tenant'
              AND coalesce(p.paused_until > now(), true)
        )
    )
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
