-- name: insert_worker
-- Opens a session; its id is never used again.
INSERT INTO relevo.workers (
    name,
    queues,
    kinds,
    concurrency,
    version,
    expires_at
)
VALUES (
    %(name)s::text,
    %(queues)s::text[],
    %(kinds)s::text[],
    %(concurrency)s::integer,
    %(version)s::text,
    clock_timestamp() + %(lease)s::float8 * interval '1 second'
)
RETURNING id;

-- name: renew_worker
-- Renews the lease of a session for as long as its row exists; no row means that it has ended.
UPDATE relevo.workers
SET heartbeat_at = clock_timestamp(),
    expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second'
WHERE id = %(worker)s::bigint
RETURNING
    id,
    clock_timestamp();

-- name: mark_worker_idle
-- Says whether the worker wants to be woken when something is enqueued.
UPDATE relevo.workers
SET idle = %(idle)s::boolean
WHERE id = %(worker)s::bigint
  AND idle <> %(idle)s::boolean;

-- name: mark_worker_stopping
-- Says that the worker starts nothing more.
UPDATE relevo.workers
SET stopping = true,
    idle = false
WHERE id = %(worker)s::bigint;

-- name: expire_worker
-- Gives the lease back before its time: the last word of a worker that stops well.
UPDATE relevo.workers
SET expires_at = clock_timestamp()
WHERE id = %(worker)s::bigint;

-- name: delete_worker
-- Ends one session whose lease is over; the trigger notes it for the rescue.
DELETE FROM relevo.workers
WHERE id = %(worker)s::bigint;

-- name: delete_expired_workers
-- Ends the sessions whose lease ran out; the trigger notes each for the rescue.
WITH expired AS MATERIALIZED (
    SELECT w.id
    FROM relevo.workers AS w
    WHERE w.expires_at <= clock_timestamp()
    ORDER BY w.id
    LIMIT 100
    FOR UPDATE SKIP LOCKED
)
DELETE FROM relevo.workers AS w
USING expired
WHERE w.id = expired.id
RETURNING
    w.id,
    w.name;

-- name: lock_ended_workers
-- Takes the ended sessions that nobody else is rescuing at this moment.
SELECT e.id
FROM relevo.ended_workers AS e
ORDER BY e.id
LIMIT 100
FOR UPDATE SKIP LOCKED;

-- name: note_missing_workers
-- Notes the sessions that jobs still name and that no row knows, ended or not: a restore, or
-- somebody's own hand, took them away. One pass over the live jobs.
INSERT INTO relevo.ended_workers (id, name)
SELECT DISTINCT j.worker, 'missing'
FROM relevo.jobs AS j
WHERE j.live
  AND j.worker IS NOT NULL
  AND NOT EXISTS (
      SELECT
      FROM relevo.workers AS w
      WHERE w.id = j.worker
  )
ON CONFLICT DO NOTHING
RETURNING id;

-- name: read_clock
-- The database's clock, for how many seconds the server has been up, and in how many seconds the
-- first of the leases ends that have not ended yet.
SELECT
    extract(epoch FROM clock_timestamp())::float8,
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8,
    (
        SELECT extract(epoch FROM min(w.expires_at) - clock_timestamp())::float8
        FROM relevo.workers AS w
        WHERE w.expires_at > clock_timestamp()
    );

-- name: list_workers
-- The sessions that exist, oldest first.
SELECT
    w.id,
    w.name,
    w.queues,
    w.kinds,
    w.concurrency,
    w.version,
    w.started_at,
    w.heartbeat_at,
    w.expires_at > clock_timestamp() AS is_live,
    w.stopping
FROM relevo.workers AS w
ORDER BY w.id;
