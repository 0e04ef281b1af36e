-- name: move_to_lanes
-- Gives due jobs of kinds under limits a lane of their kind, where they were enqueued without one:
-- by SQL, or before the limit was set. They are claimed from there, behind nobody else.
WITH strays AS MATERIALIZED (
    SELECT
        due.spot,
        due.kind,
        due.lane_key
    FROM unnest(%(tenant_ids)s::uuid[]) AS t (tenant_id)
    CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::smallint[]) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT
            j.ctid AS spot,
            j.kind,
            j.lane_key
        FROM relevo.jobs AS j
        WHERE j.queue = %(queue)s::text
          AND j.tenant_id = t.tenant_id
          AND j.lane = '00000000-0000-0000-0000-000000000000'
          AND j.priority = p.priority
          AND j.live
          AND j.available_at <= now()
          AND j.worker IS NULL
          AND j.kind = ANY (
              ARRAY (
                  SELECT l.name
                  FROM relevo.limits AS l
                  WHERE l.scope IN ('kind', 'lane')
              )
          )
        ORDER BY
            j.available_at,
            j.id
        LIMIT %(share)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS due
    LIMIT %(limit)s::integer
),
moved AS (
    UPDATE relevo.jobs AS j
    SET lane = relevo.lane_of(s.kind, s.lane_key)
    FROM strays AS s
    WHERE j.ctid = s.spot
    RETURNING j.id
)
SELECT count(*)
FROM moved;
