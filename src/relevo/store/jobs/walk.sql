-- name: find_due_queues
-- In which queues of a process something is due: one look for all of them while it is idle.
SELECT q.queue
FROM unnest(%(queues)s::text[]) AS q (queue)
CROSS JOIN LATERAL (
    WITH RECURSIVE walk AS (
        (
            SELECT
                j.tenant_id,
                j.lane
            FROM relevo.jobs AS j
            WHERE j.queue = q.queue
              AND j.live
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
            WHERE j.queue = q.queue
              AND j.live
              AND (j.tenant_id, j.lane) > (walk.tenant_id, walk.lane)
            ORDER BY
                j.tenant_id,
                j.lane
            LIMIT 1
        ) AS n
    )
    SELECT
    FROM walk
    CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::smallint[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT
        FROM relevo.jobs AS j
        WHERE j.queue = q.queue
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
                      FROM relevo.pauses AS r
                      WHERE r.scope = 'kind'
                        AND r.name = k.kind
                        AND coalesce(r.paused_until > now(), true)
                  )
              )
          )
        ORDER BY
            j.available_at,
            j.id
        LIMIT 1
    ) AS ready
    WHERE walk.tenant_id <> ALL (
        ARRAY (
            SELECT r.name::uuid
            FROM relevo.pauses AS r
            WHERE r.scope = 'tenant'
              AND coalesce(r.paused_until > now(), true)
        )
    )
    LIMIT 1
) AS due
WHERE NOT EXISTS (
    SELECT
    FROM relevo.pauses AS p
    WHERE p.scope = 'queue'
      AND p.name = q.queue
      AND coalesce(p.paused_until > now(), true)
);

-- name: find_lanes
-- Which lanes after the cursor have something due that their own limits let start, and of which
-- kind: the sweep of a queue under limits. It reads only. A lane has one kind, so its first row says
-- whether its limit is reached.
WITH RECURSIVE walk AS (
    SELECT
        %(after_tenant)s::uuid AS tenant_id,
        %(after_lane)s::uuid AS lane,
        NULL::text AS kind,
        0 AS met,
        1 AS next
    UNION ALL
    SELECT
        n.tenant_id,
        n.lane,
        n.kind,
        walk.met + 1,
        walk.next + n.is_known
    FROM walk
    CROSS JOIN LATERAL (
        (
            SELECT
                j.tenant_id,
                j.lane,
                CASE WHEN j.lane <> '00000000-0000-0000-0000-000000000000' THEN j.kind END AS kind,
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
            (%(known_kinds)s::text[])[walk.next],
            1
        WHERE walk.next < cardinality(%(known_lanes)s::uuid[])
        LIMIT 1
    ) AS n
    WHERE walk.met < %(visits)s::integer
),
-- A lane that gives out no permit now is passed by: it may hold a million jobs that wait for one.
open AS MATERIALIZED (
    SELECT
        walk.tenant_id,
        walk.lane,
        walk.kind
    FROM walk
    WHERE walk.met > 0
      -- A value, not NOT EXISTS: a join would read all lanes first, and lose their order.
      AND (
        SELECT l.id
        FROM relevo.limits AS l
        WHERE l.scope = 'lane'
          AND l.name = walk.kind
          AND l.most <= (
              SELECT count(*)
              FROM relevo.permits AS p
              WHERE p.limit_id = l.id
                AND p.for_tenant = walk.tenant_id
                AND p.for_lane = walk.lane
                AND CASE
                    WHEN l.measure = 'starts'
                    THEN p.taken_at BETWEEN now() - l.seconds * interval '1 second' AND now() + interval '1 minute'
                    ELSE EXISTS (
                        SELECT
                        FROM relevo.jobs AS j
                        WHERE j.tenant_id = p.job_tenant
                          AND j.id = p.job_id
                          AND CASE
                              -- The one whose turn it is may be due itself.
                              WHEN l.measure = 'order' AND p.number = 1
                              THEN j.live AND (j.worker IS NOT NULL OR j.available_at > now())
                              ELSE j.worker IS NOT NULL AND j.attempt = p.attempt
                          END
                    )
                END
          )
        LIMIT 1
    ) IS NULL
)
SELECT
    open.tenant_id,
    open.lane,
    open.kind,
    head.priority,
    head.available_at,
    head.id
FROM open
CROSS JOIN LATERAL (
    SELECT
        p.priority,
        ready.*
    FROM unnest(%(priorities)s::smallint[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT
            j.available_at,
            j.id
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.tenant_id = open.tenant_id
          AND j.lane = open.lane
          AND j.priority = p.priority
          AND j.live
          AND j.available_at <= now()
          AND j.worker IS NULL
          AND j.kind = ANY (%(kinds)s::text[])
        ORDER BY
            j.available_at,
            j.id
        LIMIT 1
    ) AS ready
    LIMIT 1
) AS head
LIMIT %(lanes)s::integer;

-- name: skip_lanes
-- Where a step of a walk stops that has met so many lanes; no row where there are fewer.
WITH RECURSIVE walk AS (
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
)
SELECT
    walk.tenant_id,
    walk.lane
FROM walk
WHERE walk.met = %(visits)s::integer;
