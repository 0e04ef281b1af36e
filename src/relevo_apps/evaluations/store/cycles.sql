-- name: create_cycle
-- Answers no row when the name is taken.
INSERT INTO evaluations.cycles (tenant_id, name, rules, due_on, created_by)
VALUES (%(tenant_id)s::uuid, %(name)s::text, %(rules)s::text[], %(due_on)s::date, %(actor)s::text)
ON CONFLICT DO NOTHING
RETURNING id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until;

-- name: read_cycle
-- One cycle by its id.
SELECT id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until
FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid;

-- name: find_cycle
-- One cycle by its name.
SELECT id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until
FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s::uuid
  AND name = %(name)s::text;

-- name: list_names
-- The names that are taken; capitals are compared by the application, for accents count too.
SELECT name,
       state
FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s::uuid;

-- name: lock_cycle
-- Takes the cycle for a change of state. Whoever waits here reads the state that was committed.
SELECT id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until,
       current_setting('transaction_isolation')
FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid
FOR UPDATE;

-- name: hold_cycle
-- Lets one transaction at a time change what a draft consists of; readers and foreign keys go on.
SELECT
FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid
FOR NO KEY UPDATE;

-- name: activate_cycle
-- The draft that `lock_cycle` holds becomes active and holds its messages back for a while.
UPDATE evaluations.cycles
SET state = 'active',
    activated_at = now(),
    activated_by = %(actor)s::text,
    hold_until = now() + make_interval(secs => %(hold_seconds)s::float8)
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid
  AND state = 'draft'
RETURNING id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until;

-- name: reopen_cycle
-- The active cycle that `lock_cycle` holds becomes a draft again.
UPDATE evaluations.cycles
SET state = 'draft',
    activated_at = NULL,
    activated_by = NULL,
    hold_until = NULL
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid
  AND state = 'active'
RETURNING id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until;

-- name: delete_draft
-- The draft that `lock_cycle` holds is cancelled, and its name goes on with its id.
UPDATE evaluations.cycles
SET state = 'cancelled',
    name = name || ' [' || id || ']'
WHERE tenant_id = %(tenant_id)s::uuid
  AND id = %(cycle_id)s::uuid
  AND state = 'draft'
RETURNING id, name, state, rules, due_on, created_by, activated_at, activated_by, hold_until;

-- name: insert_cycle_event
-- Records what was done to a cycle.
INSERT INTO evaluations.cycle_events (tenant_id, cycle_id, what, actor, details)
VALUES (%(tenant_id)s::uuid, %(cycle_id)s::uuid, %(what)s::text, %(actor)s::text, %(details)s::text::jsonb);

-- name: find_problems
-- Everything an activation should know, blocking or not; the application decides which is which.
WITH asked AS MATERIALIZED (
    SELECT evaluation.evaluator_id
    FROM evaluations.evaluations AS evaluation
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.state = 'draft'
    GROUP BY evaluation.evaluator_id
),
evaluator AS MATERIALIZED (
    SELECT person.external_id, person.full_name, person.sort_key,
           person.active, person.email, person.email_key
    FROM asked
    JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.id = asked.evaluator_id
),
evaluated AS MATERIALIZED (
    SELECT person.id, person.external_id, person.full_name, person.sort_key, person.active,
           coalesce(about.evaluations, 0) AS evaluations,
           about.manager_id,
           edge.manager_id AS present_manager_id
    FROM evaluations.participants AS participant
    JOIN evaluations.people AS person
        ON person.tenant_id = participant.tenant_id
       AND person.id = participant.person_id
    LEFT JOIN (
        SELECT evaluation.participant_id,
               count(*) AS evaluations,
               (array_agg(evaluation.evaluator_id) FILTER (WHERE evaluation.relation = 'manager'))[1]
                   AS manager_id
        FROM evaluations.evaluations AS evaluation
        WHERE evaluation.tenant_id = %(tenant_id)s::uuid
          AND evaluation.cycle_id = %(cycle_id)s::uuid
          AND evaluation.state = 'draft'
        GROUP BY evaluation.participant_id
    ) AS about ON about.participant_id = person.id
    LEFT JOIN evaluations.manager_edges AS edge
        ON edge.tenant_id = person.tenant_id
       AND edge.person_id = person.id
       AND edge.ends_on IS NULL
    WHERE participant.tenant_id = %(tenant_id)s::uuid
      AND participant.cycle_id = %(cycle_id)s::uuid
),
problem AS (
    SELECT 'no_participants' AS code, '' AS external_id, '' AS full_name, '' AS detail, '' AS sort_key
    WHERE NOT EXISTS (SELECT FROM evaluated)
    UNION ALL
    SELECT 'no_evaluations', '', '', '', ''
    WHERE EXISTS (SELECT FROM evaluated)
      AND NOT EXISTS (SELECT FROM asked)
    UNION ALL
    SELECT 'due_past', '', '', cycle.due_on::text, ''
    FROM evaluations.cycles AS cycle
    WHERE cycle.tenant_id = %(tenant_id)s::uuid
      AND cycle.id = %(cycle_id)s::uuid
      AND cycle.due_on < current_date
    UNION ALL
    SELECT 'participant_without_evaluation', evaluated.external_id, evaluated.full_name, '', evaluated.sort_key
    FROM evaluated
    WHERE evaluated.evaluations = 0
      AND EXISTS (SELECT FROM asked)
    UNION ALL
    SELECT 'evaluator_inactive', evaluator.external_id, evaluator.full_name, '', evaluator.sort_key
    FROM evaluator
    WHERE NOT evaluator.active
    UNION ALL
    SELECT 'evaluator_without_email', evaluator.external_id, evaluator.full_name, '', evaluator.sort_key
    FROM evaluator
    WHERE evaluator.email IS NULL
    UNION ALL
    SELECT 'participant_inactive', evaluated.external_id, evaluated.full_name, '', evaluated.sort_key
    FROM evaluated
    WHERE NOT evaluated.active
    UNION ALL
    SELECT 'shared_email', evaluator.external_id, evaluator.full_name, evaluator.email, evaluator.sort_key
    FROM evaluator
    WHERE evaluator.email_key IN (
        SELECT evaluator.email_key
        FROM evaluator
        GROUP BY evaluator.email_key
        HAVING count(*) > 1
    )
    UNION ALL
    SELECT 'without_manager', evaluated.external_id, evaluated.full_name, '', evaluated.sort_key
    FROM evaluated
    WHERE evaluated.manager_id IS NULL
      AND evaluated.evaluations > 0
      AND (
          SELECT 'manager' = ANY (cycle.rules)
          FROM evaluations.cycles AS cycle
          WHERE cycle.tenant_id = %(tenant_id)s::uuid
            AND cycle.id = %(cycle_id)s::uuid
      )
    UNION ALL
    SELECT 'manager_changed', evaluated.external_id, evaluated.full_name, asked_manager.full_name, evaluated.sort_key
    FROM evaluated
    JOIN evaluations.people AS asked_manager
        ON asked_manager.tenant_id = %(tenant_id)s::uuid
       AND asked_manager.id = evaluated.manager_id
    WHERE evaluated.manager_id IS DISTINCT FROM evaluated.present_manager_id
)
SELECT problem.code,
       problem.external_id,
       problem.full_name,
       problem.detail
FROM problem
ORDER BY problem.sort_key COLLATE "C", problem.external_id COLLATE "C", problem.code COLLATE "C";
