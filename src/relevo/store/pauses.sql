-- name: pause
-- Keeps a queue, a kind or a tenant from being claimed; a pause that stands and lasts longer is kept.
INSERT INTO relevo.pauses AS p (
    scope,
    name,
    paused_until,
    reason,
    actor
)
VALUES (
    %(scope)s::text,
    %(name)s::text,
    clock_timestamp() + %(seconds)s::float8 * interval '1 second',
    %(reason)s::text,
    %(actor)s::text
)
ON CONFLICT (scope, name) DO UPDATE
SET paused_at = CASE WHEN p.paused_until <= clock_timestamp() THEN excluded.paused_at ELSE p.paused_at END,
    paused_until = excluded.paused_until,
    reason = excluded.reason,
    actor = excluded.actor
WHERE p.paused_until < coalesce(excluded.paused_until, 'infinity')
RETURNING p.paused_until;

-- name: resume
-- Ends a pause; answers no row where there was none.
DELETE FROM relevo.pauses AS p
WHERE p.scope = %(scope)s::text
  AND p.name = %(name)s::text
RETURNING p.paused_until IS NULL OR p.paused_until > clock_timestamp() AS stood;

-- name: list_pauses
-- Every pause that stands, until when and why.
SELECT
    p.scope,
    p.name,
    p.paused_at,
    p.paused_until,
    p.reason,
    p.actor
FROM relevo.pauses AS p
WHERE p.paused_until IS NULL
   OR p.paused_until > clock_timestamp()
ORDER BY
    p.scope,
    p.name;
