-- name: pause_queue
-- Keeps a queue from being claimed for some time; a longer pause that stands is kept.
INSERT INTO relevo.queues AS q (
    name,
    paused_until,
    paused_reason,
    paused_by
)
VALUES (
    %(queue)s::text,
    clock_timestamp() + %(seconds)s::float8 * interval '1 second',
    %(reason)s::text,
    %(actor)s::text
)
ON CONFLICT (name) DO UPDATE
SET paused_until = greatest(q.paused_until, excluded.paused_until),
    paused_reason = excluded.paused_reason,
    paused_by = excluded.paused_by
RETURNING q.paused_until;

-- name: list_queues
-- Every queue that somebody has paused, and until when.
SELECT
    q.name,
    q.paused_until,
    q.paused_reason,
    q.paused_by,
    coalesce(q.paused_until > now(), false) AS is_paused
FROM relevo.queues AS q
ORDER BY q.name;
