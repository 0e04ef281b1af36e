-- The archive: which months it has, whether it is on, and the jobs in it.

-- name: read_archive
-- Whether finished jobs go to the archive, and for how many months it keeps them.
SELECT
    i.archiving,
    i.archive_months AS months
FROM relevo.installation AS i;

-- name: switch_archive
-- Says whether finished jobs go to the archive, and for how many months it keeps them; only the owner may.
UPDATE relevo.installation
SET archiving = %(archiving)s::boolean,
    archive_months = %(months)s::integer
RETURNING
    archiving,
    archive_months AS months;

-- name: find_missing_months
-- The months that need a table and have none: this one, the next, and those in which the next jobs to go ended.
WITH next AS MATERIALIZED (
    SELECT gone.finished_at
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT j.finished_at
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now()
          AND j.prune_at >= CASE t.id
              WHEN %(after_tenant)s::uuid THEN coalesce(%(after)s::timestamptz, '-infinity')
              ELSE '-infinity'
          END
          AND NOT j.live
        ORDER BY j.prune_at
        LIMIT %(limit)s::integer
    ) AS gone
    WHERE t.id >= %(after_tenant)s::uuid
    ORDER BY t.id
    LIMIT %(limit)s::integer
),
-- In UTC, whatever the session's time zone is.
ahead AS MATERIALIZED (
    SELECT date_trunc('month', now() AT TIME ZONE 'UTC' + n.later * interval '1 month') AT TIME ZONE 'UTC' AS month
    FROM generate_series(0, 1) AS n (later)
)
SELECT needed.month
FROM (
    SELECT ahead.month
    FROM ahead
    UNION ALL
    SELECT date_trunc('month', next.finished_at, 'UTC')
    FROM next
    -- No table is made for a month that cannot be; such a job stays where it is.
    WHERE next.finished_at >= '1970-01-01 00:00+00'
      AND next.finished_at < now() + interval '1 month'
) AS needed
WHERE (SELECT i.archiving FROM relevo.installation AS i)
  AND needed.month >= (SELECT relevo.archive_since())
  AND needed.month <> ALL (ARRAY (SELECT m.starts_at FROM relevo.archive_months() AS m));

-- name: make_month
-- Makes the table of one month; false where it is there, or has to wait.
SELECT relevo.make_archive_month(%(month)s::timestamptz);

-- name: drop_month
-- Drops the oldest month whose time is over; NULL where there is none, or it has to wait.
SELECT relevo.drop_archive_month()
WHERE EXISTS (
    SELECT
    FROM relevo.archive_months() AS m
    WHERE m.starts_at < (SELECT relevo.archive_since())
);

-- name: list_months
-- Every month with its size, and when it goes if the archive keeps so many months.
SELECT
    m.starts_at,
    greatest(c.reltuples, pg_stat_get_live_tuples(c.oid), 0)::bigint AS jobs,
    pg_total_relation_size(c.oid) AS bytes,
    gone.at AS gone_at,
    coalesce(gone.at <= now(), false) AS is_over
FROM relevo.archive_months() AS m
JOIN pg_catalog.pg_class AS c
    ON c.oid = to_regclass(format('relevo.%%I', m.name))
CROSS JOIN LATERAL (
    SELECT
        (m.starts_at AT TIME ZONE 'UTC' + make_interval(months => %(months)s::integer + 1)) AT TIME ZONE 'UTC' AS at
) AS gone
ORDER BY m.starts_at;

-- name: show_archived_job
-- One archived job, as `show_job` of the live table has it.
SELECT
    a.tenant_id,
    a.id,
    a.queue,
    a.kind,
    a.outcome AS state,
    a.attempt,
    a.excused,
    a.losses,
    a.max_attempts,
    a.priority,
    a.available_at,
    a.created_at,
    a.started_at,
    a.finished_at,
    NULL::bigint AS worker,
    a.aggregate_id,
    a.key,
    a.actor,
    a.requeued_at,
    a.requeued_by,
    a.last_error,
    a.payload::text,
    a.result::text,
    a.archived_at
FROM relevo.archive AS a
WHERE a.tenant_id = %(tenant_id)s::uuid
  AND a.id = %(id)s::bigint
ORDER BY a.finished_at DESC
LIMIT 1;

-- name: list_archived_attempts
-- The starts of one archived job that did not complete it, oldest first.
SELECT
    t.attempt,
    t.outcome,
    t.worker,
    t.started_at,
    t.finished_at,
    t.retry_at,
    t.error
FROM relevo.archive AS a
CROSS JOIN LATERAL jsonb_to_recordset(a.attempts) AS t (
    attempt integer,
    outcome text,
    worker bigint,
    started_at timestamptz,
    finished_at timestamptz,
    retry_at timestamptz,
    error text
)
WHERE a.tenant_id = %(tenant_id)s::uuid
  AND a.id = %(id)s::bigint
  AND a.finished_at = %(finished_at)s::timestamptz
ORDER BY t.attempt;
