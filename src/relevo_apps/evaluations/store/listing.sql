-- name: list_cycles
-- The cycles of a tenant that were not given up, the newest first, each with how many people and evaluations it has.
SELECT cycle.id,
       cycle.name,
       cycle.state,
       cycle.rules,
       cycle.due_on,
       cycle.created_by,
       cycle.activated_at,
       cycle.activated_by,
       cycle.hold_until,
       (
           SELECT count(*)
           FROM evaluations.participants AS participant
           WHERE participant.tenant_id = cycle.tenant_id
             AND participant.cycle_id = cycle.id
       ),
       (
           SELECT count(*)
           FROM evaluations.evaluations AS evaluation
           WHERE evaluation.tenant_id = cycle.tenant_id
             AND evaluation.cycle_id = cycle.id
       )
FROM evaluations.cycles AS cycle
WHERE cycle.tenant_id = %(tenant_id)s::uuid
  AND cycle.state <> 'cancelled'
ORDER BY cycle.created_at DESC,
         cycle.id
LIMIT %(limit)s::integer;

-- name: read_pause
-- Why a queue is not served at this moment, and until when; no row while it is.
SELECT paused_until,
       reason
FROM relevo.pauses
WHERE scope = 'queue'
  AND name = %(queue)s::text
  AND coalesce(paused_until > now(), true);
