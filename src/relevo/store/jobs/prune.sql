-- name: know_archive
-- Says that this transaction keeps what it prunes where the archive is on; see policy jobs_archived_first.
SELECT set_config('relevo.knows_archive', 'on', true);

-- name: prune_jobs
-- Takes a few finished jobs whose retention is over out of the table: into the archive where it is on,
-- with their attempts, else for good. One statement, so a job is never in both and never in neither.
WITH kept AS MATERIALIZED (
    SELECT
        CASE WHEN i.archiving THEN relevo.archive_since() END AS since,
        ARRAY (SELECT m.starts_at FROM relevo.archive_months() AS m) AS months
    FROM (SELECT) AS always
    LEFT JOIN relevo.installation AS i
        ON i.singleton
),
old AS MATERIALIZED (
    SELECT gone.place
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT j.ctid AS place
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now()
          -- Behind the place that the batch before reached: what lies there is dead, and perhaps not removed yet.
          AND j.prune_at >= CASE t.id
              WHEN %(after_tenant)s::uuid THEN coalesce(%(after)s::timestamptz, '-infinity')
              ELSE '-infinity'
          END
          AND NOT j.live
          -- What is to be kept waits here until its month has a table.
          AND (
              coalesce(j.finished_at < (SELECT kept.since FROM kept), true)
              OR date_trunc('month', j.finished_at, 'UTC') = ANY ((SELECT kept.months FROM kept)::timestamptz[])
          )
        ORDER BY j.prune_at
        LIMIT %(limit)s::integer
        FOR UPDATE SKIP LOCKED
    ) AS gone
    WHERE t.id >= %(after_tenant)s::uuid
    ORDER BY t.id
    LIMIT %(limit)s::integer
),
pruned AS (
    DELETE FROM relevo.jobs AS j
    WHERE j.ctid = ANY (ARRAY (SELECT old.place FROM old))
    RETURNING
        j.tenant_id,
        j.id,
        j.available_at,
        j.created_at,
        j.started_at,
        j.finished_at,
        j.requeued_at,
        j.prune_at,
        j.attempt,
        j.excused,
        j.losses,
        j.max_attempts,
        j.priority,
        j.outcome,
        j.queue,
        j.kind,
        j.aggregate_id,
        j.lane_key,
        coalesce(j.key, j.live_key, j.waiting_key) AS key,
        j.actor,
        j.requeued_by,
        j.payload,
        j.headers,
        j.result,
        j.last_error
),
archived AS (
    INSERT INTO relevo.archive (
        tenant_id,
        id,
        available_at,
        created_at,
        started_at,
        finished_at,
        requeued_at,
        attempt,
        excused,
        losses,
        max_attempts,
        priority,
        outcome,
        queue,
        kind,
        aggregate_id,
        lane_key,
        key,
        actor,
        requeued_by,
        payload,
        headers,
        result,
        last_error,
        attempts
    )
    SELECT
        p.tenant_id,
        p.id,
        p.available_at,
        p.created_at,
        p.started_at,
        p.finished_at,
        p.requeued_at,
        p.attempt,
        p.excused,
        p.losses,
        p.max_attempts,
        p.priority,
        p.outcome,
        p.queue,
        p.kind,
        p.aggregate_id,
        p.lane_key,
        p.key,
        p.actor,
        p.requeued_by,
        p.payload,
        p.headers,
        p.result,
        p.last_error,
        -- The rows themselves go with the job when the statement ends.
        to_jsonb(
            ARRAY (
                SELECT jsonb_build_object(
                    'attempt', a.attempt,
                    'outcome', a.outcome,
                    'worker', a.worker,
                    'started_at', a.started_at,
                    'finished_at', a.finished_at,
                    'retry_at', a.retry_at,
                    'error', a.error
                )
                FROM relevo.attempts AS a
                WHERE a.tenant_id = p.tenant_id
                  AND a.job_id = p.id
                ORDER BY a.attempt
            )
        )
    FROM pruned AS p
    WHERE p.finished_at >= (SELECT kept.since FROM kept)
    -- Whoever put a copy of an archived job back has the same end of the same job there already.
    ON CONFLICT DO NOTHING
)
SELECT
    p.tenant_id,
    -- A date that clients cannot read must not stop the pruner.
    greatest(p.prune_at, '0001-01-03 00:00+00') AS prune_at,
    coalesce(p.finished_at >= (SELECT kept.since FROM kept), false) AS archived
FROM pruned AS p;

-- name: count_overdue_jobs
-- How many jobs should have been pruned long ago, counted up to a number.
SELECT count(*)
FROM (
    SELECT
    FROM relevo.tenants AS t
    CROSS JOIN LATERAL (
        SELECT
        FROM relevo.jobs AS j
        WHERE j.tenant_id = t.id
          AND j.prune_at <= now() - %(late)s::float8 * interval '1 second'
          AND NOT j.live
        ORDER BY j.prune_at
        LIMIT %(most)s::integer
    ) AS overdue
    LIMIT %(most)s::integer
) AS few;
