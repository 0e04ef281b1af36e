-- name: claim_limited
-- The claim of a queue under limits: each job that starts takes a permit of every limit that it
-- falls under, in the same statement. Whether a permit is free is what the job that took it says,
-- so a crash leaves nothing behind. Read before the lock, it is checked again under the lock:
-- whoever took the permit in between has changed its row.
WITH entrance AS (
    -- Never a row: the lock on the table is what whoever changes limits waits for.
    SELECT
    FROM relevo.limits
    WHERE false
    FOR KEY SHARE
),
rule AS MATERIALIZED (
    SELECT
        l.id,
        l.scope,
        l.name,
        l.measure,
        l.most,
        l.seconds
    FROM relevo.limits AS l
    WHERE (l.scope = 'queue' AND l.name = %(queue)s::text)
       OR (l.scope IN ('kind', 'lane') AND l.name = ANY (%(kinds)s::text[]))
       OR l.scope = 'tenant'
),
lane AS MATERIALIZED (
    SELECT
        u.tenant_id,
        u.lane,
        u.kind,
        u.share,
        u.place
    FROM unnest(
        %(tenant_ids)s::uuid[],
        %(lanes)s::uuid[],
        %(lane_kinds)s::text[],
        %(shares)s::integer[]
    ) WITH ORDINALITY AS u (tenant_id, lane, kind, share, place)
    WHERE NOT EXISTS (
        SELECT
        FROM relevo.pauses AS p
        WHERE coalesce(p.paused_until > now(), true)
          AND (p.scope, p.name) IN (
              ('queue', %(queue)s::text),
              ('kind', u.kind),
              ('tenant', u.tenant_id::text)
          )
    )
),
-- Each lane with each limit that it meets; a gate is a limit, and the tenant or lane that it counts
-- by itself. Everything below finds its gate by number, so that nothing is compared with everything.
meeting AS MATERIALIZED (
    SELECT
        m.*,
        CASE
            WHEN m.id IS NOT NULL
            THEN dense_rank() OVER (
                ORDER BY
                    m.id,
                    m.for_tenant,
                    m.for_lane
            )
        END AS gate
    FROM (
        SELECT
            l.place,
            l.tenant_id,
            l.lane,
            l.kind,
            l.share,
            r.id,
            r.measure,
            r.most,
            r.seconds,
            CASE
                WHEN r.scope IN ('tenant', 'lane') THEN l.tenant_id
                ELSE '00000000-0000-0000-0000-000000000000'
            END AS for_tenant,
            CASE
                WHEN r.scope = 'lane' THEN l.lane
                ELSE '00000000-0000-0000-0000-000000000000'
            END AS for_lane
        FROM lane AS l
        LEFT JOIN rule AS r
            ON CASE r.scope
                WHEN 'queue' THEN true
                WHEN 'tenant' THEN r.name = l.tenant_id::text
                    OR (
                        r.name = '*'
                        AND NOT EXISTS (
                            SELECT
                            FROM rule AS own
                            WHERE own.scope = 'tenant'
                              AND own.measure = r.measure
                              AND own.name = l.tenant_id::text
                        )
                    )
                ELSE r.name = l.kind
            END
    ) AS m
),
gate AS MATERIALIZED (
    SELECT
        g.*,
        -- What was taken when the limit was set, or before it was lowered.
        (
            SELECT count(*)
            FROM relevo.permits AS p
            WHERE p.limit_id = g.id
              AND p.for_tenant = g.for_tenant
              AND p.for_lane = g.for_lane
              AND p.number > g.most
              AND CASE
                  WHEN g.measure = 'starts'
                  THEN p.taken_at BETWEEN now() - g.seconds * interval '1 second' AND now() + interval '1 minute'
                  ELSE EXISTS (
                      SELECT
                      FROM relevo.jobs AS j
                      -- An array of one, not "=": a plan for an empty table would hash them all.
                      WHERE j.tenant_id = ANY (ARRAY[p.job_tenant])
                        AND j.id = p.job_id
                        AND j.worker IS NOT NULL
                        AND j.attempt = p.attempt
                  )
              END
        ) AS above
    FROM (
        SELECT DISTINCT ON (m.gate)
            m.gate,
            m.id,
            m.measure,
            m.most,
            m.seconds,
            m.for_tenant,
            m.for_lane
        FROM meeting AS m
        WHERE m.gate IS NOT NULL
        ORDER BY m.gate
    ) AS g
),
free AS MATERIALIZED (
    SELECT
        g.gate,
        g.id,
        g.for_tenant,
        g.for_lane,
        g.above,
        f.is_new,
        f.number,
        f.job_tenant,
        f.job_id,
        f.attempt,
        f.taken_at
    FROM gate AS g
    LEFT JOIN LATERAL (
        (
            SELECT
                false AS is_new,
                p.number,
                p.job_tenant,
                p.job_id,
                p.attempt,
                p.taken_at
            FROM relevo.permits AS p
            WHERE p.limit_id = g.id
              AND p.for_tenant = g.for_tenant
              AND p.for_lane = g.for_lane
              AND p.number <= g.most
              AND CASE
                  -- A start that lies ahead was made before the clock went back.
                  WHEN g.measure = 'starts'
                  THEN p.taken_at NOT BETWEEN now() - g.seconds * interval '1 second' AND now() + interval '1 minute'
                  ELSE NOT EXISTS (
                      SELECT
                      FROM relevo.jobs AS j
                      WHERE j.tenant_id = p.job_tenant
                        AND j.id = p.job_id
                        -- Where the order counts a job has its turn until it is final.
                        AND CASE
                            WHEN g.measure = 'order' THEN j.live
                            ELSE j.worker IS NOT NULL AND j.attempt = p.attempt
                        END
                  )
              END
            ORDER BY p.number
        )
        UNION ALL
        -- Those that nobody has had yet.
        (
            SELECT
                true,
                n.number,
                '00000000-0000-0000-0000-000000000000',
                0,
                0,
                '0001-01-03 00:00+00'
            FROM generate_series(
                1,
                CASE
                    WHEN g.most > (
                        SELECT count(*)
                        FROM relevo.permits AS p
                        WHERE p.limit_id = g.id
                          AND p.for_tenant = g.for_tenant
                          AND p.for_lane = g.for_lane
                          AND p.number <= g.most
                    )
                    THEN g.most
                    ELSE 0
                END
            ) AS n (number)
            -- A value, not NOT EXISTS: that may become a join of everything with everything.
            WHERE (
                SELECT p.number
                FROM relevo.permits AS p
                WHERE p.limit_id = g.id
                  AND p.for_tenant = g.for_tenant
                  AND p.for_lane = g.for_lane
                  AND p.number = n.number
            ) IS NULL
        )
        -- Where some numbers above are still in use, as many fewer below are given out. All claims
        -- take the free ones in this order, so that two of them cannot take different ones instead.
        LIMIT CASE
            WHEN g.above = 0 THEN %(limit)s::integer
            ELSE least(
                %(limit)s::integer,
                greatest(
                    0,
                    g.most - g.above - (
                        SELECT count(*)
                        FROM relevo.permits AS p
                        WHERE p.limit_id = g.id
                          AND p.for_tenant = g.for_tenant
                          AND p.for_lane = g.for_lane
                          AND p.number <= g.most
                          AND CASE
                              WHEN g.measure = 'starts'
                              THEN p.taken_at BETWEEN now() - g.seconds * interval '1 second' AND now() + interval '1 minute'
                              ELSE EXISTS (
                                  SELECT
                                  FROM relevo.jobs AS j
                                  WHERE j.tenant_id = p.job_tenant
                                    AND j.id = p.job_id
                                    AND CASE
                                        WHEN g.measure = 'order' THEN j.live
                                        ELSE j.worker IS NOT NULL AND j.attempt = p.attempt
                                    END
                              )
                          END
                    )
                )
            )
        END
    ) AS f ON true
),
-- The free permits of all gates, one behind the other, and where those of each gate begin.
bag AS MATERIALIZED (
    SELECT
        array_agg(f.number) AS numbers,
        array_agg(f.job_tenant) AS job_tenants,
        array_agg(f.job_id) AS job_ids,
        array_agg(f.attempt) AS attempts,
        array_agg(f.taken_at) AS times
    FROM (
        SELECT
            free.number,
            free.job_tenant,
            free.job_id,
            free.attempt,
            free.taken_at
        FROM free
        WHERE free.number IS NOT NULL
        ORDER BY
            free.gate,
            free.is_new,
            free.number
    ) AS f
),
door AS MATERIALIZED (
    SELECT
        array_agg(d.id ORDER BY d.gate) AS ids,
        array_agg(d.for_tenant ORDER BY d.gate) AS tenants,
        array_agg(d.for_lane ORDER BY d.gate) AS lanes,
        array_agg(d.above ORDER BY d.gate) AS aboves,
        array_agg(d.free ORDER BY d.gate) AS frees,
        array_agg(d.begins ORDER BY d.gate) AS begins
    FROM (
        SELECT
            f.gate,
            f.id,
            f.for_tenant,
            f.for_lane,
            f.above,
            count(f.number) AS free,
            sum(count(f.number)) OVER (ORDER BY f.gate) - count(f.number) AS begins
        FROM free AS f
        GROUP BY
            f.gate,
            f.id,
            f.for_tenant,
            f.for_lane,
            f.above
    ) AS d
),
opened AS MATERIALIZED (
    SELECT
        m.place,
        m.tenant_id,
        m.lane,
        array_agg(m.gate) FILTER (WHERE m.gate IS NOT NULL) AS gates,
        array_agg(m.gate) FILTER (WHERE m.measure <> 'order') AS other_gates,
        -- The limit that keeps the lane in order; a lane has at most one.
        max(m.id) FILTER (WHERE m.measure = 'order') AS turns,
        max((SELECT door.aboves FROM door)[m.gate]) FILTER (WHERE m.measure = 'order') AS beside,
        least(m.share, min((SELECT door.frees FROM door)[m.gate])) AS most,
        coalesce(min((SELECT door.frees FROM door)[m.gate]) FILTER (WHERE m.measure <> 'order'), 1) AS others,
        CASE
            WHEN m.kind IS NOT NULL THEN ARRAY[m.kind]
            -- Kinds under limits of their own are claimed from lanes of their own.
            ELSE ARRAY (
                SELECT k.kind
                FROM unnest(%(kinds)s::text[]) AS k (kind)
                WHERE NOT EXISTS (
                    SELECT
                    FROM rule AS r
                    WHERE r.scope IN ('kind', 'lane')
                      AND r.name = k.kind
                )
                  AND NOT EXISTS (
                    SELECT
                    FROM relevo.pauses AS p
                    WHERE p.scope = 'kind'
                      AND p.name = k.kind
                      AND coalesce(p.paused_until > now(), true)
                )
            )
        END AS kinds
    FROM meeting AS m
    GROUP BY
        m.place,
        m.tenant_id,
        m.lane,
        m.kind,
        m.share
    -- The lanes take turns, and this is whose turn it is.
    ORDER BY m.place
),
-- Where the order counts: a job that waited for its retry comes before all others of its lane.
again AS MATERIALIZED (
    SELECT
        o.place AS lane,
        0::bigint AS priority,
        due.*,
        o.other_gates AS gates
    FROM opened AS o
    CROSS JOIN LATERAL (
        SELECT
            held.*,
            -- It has the permit of its turn already, and marks it: who saw the turn free has not.
            p.ctid AS permit
        FROM relevo.permits AS p
        CROSS JOIN LATERAL (
            SELECT
                j.available_at,
                j.ctid AS spot,
                j.tenant_id,
                j.id,
                least(j.attempt, 2147483646) + 1 AS attempt
            FROM relevo.jobs AS j
            WHERE j.tenant_id = p.job_tenant
              AND j.id = p.job_id
              AND j.queue = %(queue)s::text
              AND j.live
              AND j.available_at <= now()
              AND j.worker IS NULL
            FOR UPDATE SKIP LOCKED
        ) AS held
        WHERE p.limit_id = o.turns
          AND p.for_tenant = o.tenant_id
          AND p.for_lane = o.lane
          AND p.number = 1
        FOR UPDATE OF p SKIP LOCKED
    ) AS due
    WHERE o.turns IS NOT NULL
      AND o.others > 0
      -- None of those that ran when the order was declared.
      AND o.beside = 0
    LIMIT %(limit)s::integer
),
-- The first of a lane in order. It is found before it is locked: a SKIP LOCKED that looked for one
-- would answer the second while somebody holds the first.
head AS MATERIALIZED (
    SELECT
        o.place AS lane,
        0::bigint AS priority,
        due.*,
        NULL::tid AS permit,
        o.gates
    FROM opened AS o
    CROSS JOIN LATERAL (
        SELECT due.spot
        FROM unnest(%(priorities)s::smallint[]) WITH ORDINALITY AS p (priority, place)
        CROSS JOIN LATERAL (
            SELECT j.ctid AS spot
            FROM relevo.jobs AS j
            WHERE j.queue = %(queue)s::text
              AND j.tenant_id = o.tenant_id
              AND j.lane = o.lane
              AND j.priority = p.priority
              AND j.live
              -- A transaction that commits late may have been before the place that was reached.
              AND j.available_at > (%(floors)s::timestamptz[])[4 * (o.place - 1) + p.place] - interval '1 minute'
              AND j.available_at <= now()
              AND j.worker IS NULL
              AND j.kind = ANY (o.kinds)
            ORDER BY
                j.available_at,
                j.id
            LIMIT 1
        ) AS due
        LIMIT 1
    ) AS first
    CROSS JOIN LATERAL (
        SELECT
            j.available_at,
            j.ctid AS spot,
            j.tenant_id,
            j.id,
            least(j.attempt, 2147483646) + 1 AS attempt
        FROM relevo.jobs AS j
        WHERE j.ctid = first.spot
          AND j.live
          AND j.available_at <= now()
          AND j.worker IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS due
    WHERE o.turns IS NOT NULL
      AND o.most > 0
    LIMIT %(limit)s::integer
),
fresh AS MATERIALIZED (
    SELECT
        o.place AS lane,
        ready.*,
        NULL::tid AS permit,
        o.gates
    FROM opened AS o
    CROSS JOIN LATERAL (
        SELECT
            p.place AS priority,
            due.*
        FROM unnest(%(priorities)s::smallint[]) WITH ORDINALITY AS p (priority, place)
        CROSS JOIN LATERAL (
            SELECT
                j.available_at,
                j.ctid AS spot,
                j.tenant_id,
                j.id,
                least(j.attempt, 2147483646) + 1 AS attempt
            FROM relevo.jobs AS j
            WHERE j.queue = %(queue)s::text
              AND j.tenant_id = o.tenant_id
              AND j.lane = o.lane
              AND j.priority = p.priority
              AND j.live
              AND (j.available_at, j.id) > (
                  (%(floors)s::timestamptz[])[4 * (o.place - 1) + p.place],
                  (%(floor_ids)s::bigint[])[4 * (o.place - 1) + p.place]
              )
              AND j.available_at <= now()
              AND j.worker IS NULL
              AND j.kind = ANY (o.kinds)
            ORDER BY
                j.available_at,
                j.id
            LIMIT o.most
            FOR UPDATE SKIP LOCKED
        ) AS due
        LIMIT o.most
    ) AS ready
    WHERE o.turns IS NULL
      AND o.most > 0
    LIMIT %(limit)s::integer
),
candidate AS MATERIALIZED (
    SELECT
        row_number() OVER (
            ORDER BY
                c.lane,
                c.priority,
                c.available_at,
                c.id
        ) AS place,
        c.spot,
        c.tenant_id,
        c.id,
        c.attempt,
        c.permit,
        c.gates
    FROM (
        SELECT again.*
        FROM again
        UNION ALL
        SELECT
            head.lane,
            head.priority,
            head.available_at,
            head.spot,
            head.tenant_id,
            head.id,
            head.attempt,
            head.permit,
            head.gates
        FROM head
        UNION ALL
        SELECT
            fresh.lane,
            fresh.priority,
            fresh.available_at,
            fresh.spot,
            fresh.tenant_id,
            fresh.id,
            fresh.attempt,
            fresh.permit,
            fresh.gates
        FROM fresh
    ) AS c
    ORDER BY place
    LIMIT %(limit)s::integer
),
-- A candidate needs one permit at each of its gates; the nth in line gets the nth that is free.
need AS MATERIALIZED (
    SELECT
        n.*,
        -- Whether there is one at every gate: nobody takes some of them and does not start.
        bool_and(n.nth <= (SELECT door.frees FROM door)[n.gate]) OVER (PARTITION BY n.place) AS is_whole
    FROM (
        SELECT
            c.place,
            c.spot,
            c.tenant_id,
            c.id,
            c.attempt,
            g.gate,
            row_number() OVER (
                PARTITION BY g.gate
                ORDER BY c.place
            ) AS nth
        FROM candidate AS c
        CROSS JOIN unnest(c.gates) AS g (gate)
    ) AS n
),
ticket AS MATERIALIZED (
    SELECT
        n.spot,
        n.tenant_id,
        n.id,
        n.attempt,
        (SELECT door.ids FROM door)[n.gate] AS limit_id,
        (SELECT door.tenants FROM door)[n.gate] AS for_tenant,
        (SELECT door.lanes FROM door)[n.gate] AS for_lane,
        (SELECT bag.numbers FROM bag)[n.at] AS number,
        (SELECT bag.job_tenants FROM bag)[n.at] AS last_tenant,
        (SELECT bag.job_ids FROM bag)[n.at] AS last_id,
        (SELECT bag.attempts FROM bag)[n.at] AS last_attempt,
        (SELECT bag.times FROM bag)[n.at] AS last_taken_at
    FROM (
        SELECT
            need.*,
            ((SELECT door.begins FROM door)[need.gate] + need.nth)::integer AS at
        FROM need
    ) AS n
    WHERE n.is_whole
),
-- Between the look and the lock another claim may have taken it: then it is not what was seen.
locked AS MATERIALIZED (
    SELECT
        t.spot,
        t.tenant_id,
        t.id,
        t.attempt,
        seen.permit
    FROM ticket AS t
    CROSS JOIN LATERAL (
        SELECT p.ctid AS permit
        FROM relevo.permits AS p
        WHERE p.limit_id = t.limit_id
          AND p.for_tenant = t.for_tenant
          AND p.for_lane = t.for_lane
          AND p.number = t.number
          AND p.job_tenant = t.last_tenant
          AND p.job_id = t.last_id
          AND p.attempt = t.last_attempt
          AND p.taken_at = t.last_taken_at
        FOR UPDATE SKIP LOCKED
    ) AS seen
),
-- One moment for permits and jobs, so that what the row says and what was allowed agree.
moment AS MATERIALIZED (
    SELECT clock_timestamp() AS at
),
-- What each candidate still owes before permits are made, added up row by row.
owing AS MATERIALIZED (
    SELECT
        o.*,
        sum(o.owed) OVER (PARTITION BY o.tenant_id, o.id) AS debt
    FROM (
        SELECT
            c.spot,
            c.tenant_id,
            c.id,
            c.attempt,
            c.permit,
            NULL::bigint AS limit_id,
            NULL::uuid AS for_tenant,
            NULL::uuid AS for_lane,
            NULL::integer AS number,
            0 AS owed
        FROM candidate AS c
        UNION ALL
        SELECT
            n.spot,
            n.tenant_id,
            n.id,
            n.attempt,
            NULL,
            NULL,
            NULL,
            NULL,
            NULL,
            1
        FROM need AS n
        WHERE NOT n.is_whole
        UNION ALL
        SELECT
            t.spot,
            t.tenant_id,
            t.id,
            t.attempt,
            NULL,
            t.limit_id,
            t.for_tenant,
            t.for_lane,
            CASE WHEN t.last_id = 0 THEN t.number END,
            CASE WHEN t.last_id = 0 THEN 0 ELSE 1 END
        FROM ticket AS t
        UNION ALL
        SELECT
            l.spot,
            l.tenant_id,
            l.id,
            l.attempt,
            l.permit,
            NULL,
            NULL,
            NULL,
            NULL,
            -1
        FROM locked AS l
    ) AS o
),
-- A claim cannot commit after its session has ended: the end has to wait for this lock.
me AS MATERIALIZED (
    SELECT w.id
    FROM relevo.workers AS w
    WHERE w.id = %(worker)s::bigint
      AND EXISTS (SELECT FROM owing WHERE owing.debt = 0)
    FOR KEY SHARE OF w
),
made AS (
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
        o.limit_id,
        o.for_tenant,
        o.for_lane,
        o.number,
        o.tenant_id,
        o.id,
        o.attempt,
        (SELECT moment.at FROM moment)
    FROM owing AS o
    CROSS JOIN me
    WHERE o.number IS NOT NULL
      AND o.debt = 0
    -- In one order, so that two claims that make the same ones cannot deadlock.
    ORDER BY
        o.limit_id,
        o.for_tenant,
        o.for_lane,
        o.number
    ON CONFLICT DO NOTHING
    RETURNING
        job_tenant,
        job_id
),
winner AS MATERIALIZED (
    SELECT
        w.spot,
        w.tenant_id,
        w.id,
        w.attempt,
        w.permit,
        sum(w.owed) OVER (PARTITION BY w.tenant_id, w.id) AS debt
    FROM (
        SELECT
            o.spot,
            o.tenant_id,
            o.id,
            o.attempt,
            o.permit,
            CASE WHEN o.number IS NULL THEN 0 ELSE 1 END AS owed
        FROM owing AS o
        WHERE o.debt = 0
        UNION ALL
        SELECT
            NULL,
            m.job_tenant,
            m.job_id,
            NULL,
            NULL,
            -1
        FROM made AS m
    ) AS w
),
taken AS (
    UPDATE relevo.permits AS p
    SET job_tenant = w.tenant_id,
        job_id = w.id,
        attempt = w.attempt,
        taken_at = (SELECT moment.at FROM moment)
    FROM winner AS w
    CROSS JOIN me
    WHERE p.ctid = w.permit
      AND w.debt = 0
)
UPDATE relevo.jobs AS j
SET state = 'running',
    attempt = least(j.attempt, 2147483646) + 1,
    worker = %(worker)s::bigint,
    started_at = (SELECT moment.at FROM moment),
    waiting_key = NULL
WHERE j.ctid = ANY (
    ARRAY (
        SELECT w.spot
        FROM winner AS w
        CROSS JOIN me
        WHERE w.debt = 0
          AND w.spot IS NOT NULL
    )
)
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
