-- name: add_participants
-- Adds people to a draft. The lock waits for an activation that runs and then reads the
-- state that it left, so nobody slips into an active cycle. One row per outcome.
WITH cycle AS MATERIALIZED (
    SELECT id, state
    FROM evaluations.cycles
    WHERE tenant_id = %(tenant_id)s::uuid
      AND id = %(cycle_id)s::uuid
    FOR SHARE
),
given AS MATERIALIZED (
    SELECT DISTINCT external_id
    FROM unnest(%(external_ids)s::text[]) AS given (external_id)
),
known AS MATERIALIZED (
    SELECT given.external_id, person.id, person.active
    FROM given
    LEFT JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.external_id = given.external_id
),
added AS (
    INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)
    SELECT %(tenant_id)s::uuid, %(cycle_id)s::uuid, known.id, %(actor)s::text
    FROM known
    WHERE known.active
      AND (SELECT cycle.state FROM cycle) = 'draft'
    ORDER BY known.id
    ON CONFLICT DO NOTHING
    RETURNING person_id
),
outcome AS (
    SELECT known.external_id,
           CASE
               WHEN known.id IS NULL THEN 'unknown'
               WHEN NOT known.active THEN 'inactive'
               WHEN added.person_id IS NOT NULL THEN 'added'
               ELSE 'already_there'
           END AS outcome
    FROM known
    LEFT JOIN added ON added.person_id = known.id
)
SELECT cycle.state,
       outcome.outcome,
       count(outcome.outcome),
       coalesce(
           array_agg(outcome.external_id ORDER BY outcome.external_id COLLATE "C")
               FILTER (WHERE outcome.outcome IN ('unknown', 'inactive')),
           '{}'
       )
FROM cycle
LEFT JOIN outcome ON true
GROUP BY cycle.state, outcome.outcome;

-- name: add_everyone
-- Adds every active person to a draft, under the same lock.
WITH cycle AS MATERIALIZED (
    SELECT id, state
    FROM evaluations.cycles
    WHERE tenant_id = %(tenant_id)s::uuid
      AND id = %(cycle_id)s::uuid
    FOR SHARE
),
known AS MATERIALIZED (
    SELECT person.id
    FROM evaluations.people AS person
    WHERE person.tenant_id = %(tenant_id)s::uuid
      AND person.active
),
added AS (
    INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)
    SELECT %(tenant_id)s::uuid, %(cycle_id)s::uuid, known.id, %(actor)s::text
    FROM known
    WHERE (SELECT cycle.state FROM cycle) = 'draft'
    ORDER BY known.id
    ON CONFLICT DO NOTHING
    RETURNING person_id
)
SELECT cycle.state,
       (SELECT count(*) FROM added),
       (SELECT count(*) FROM known) - (SELECT count(*) FROM added)
FROM cycle;

-- name: remove_participants
-- Takes people and the evaluations about them out of a draft, under the same lock.
WITH cycle AS MATERIALIZED (
    SELECT id, state
    FROM evaluations.cycles
    WHERE tenant_id = %(tenant_id)s::uuid
      AND id = %(cycle_id)s::uuid
    FOR SHARE
),
leaving AS MATERIALIZED (
    SELECT person.id AS person_id
    FROM evaluations.people AS person
    WHERE person.tenant_id = %(tenant_id)s::uuid
      AND person.external_id = ANY (%(external_ids)s::text[])
      AND (SELECT cycle.state FROM cycle) = 'draft'
),
forgotten AS (
    DELETE FROM evaluations.evaluations AS evaluation
    USING leaving
    WHERE evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.participant_id = leaving.person_id
    RETURNING evaluation.id
),
removed AS (
    DELETE FROM evaluations.participants AS participant
    USING leaving
    WHERE participant.tenant_id = %(tenant_id)s::uuid
      AND participant.cycle_id = %(cycle_id)s::uuid
      AND participant.person_id = leaving.person_id
    RETURNING participant.person_id
)
SELECT cycle.state,
       (SELECT count(*) FROM removed),
       (SELECT count(*) FROM forgotten)
FROM cycle;

-- name: generate_evaluations
-- Makes the evaluations of a draft follow its rules and the present managers: adds what
-- is missing and takes out what no longer follows. Peers are named by hand and stay.
WITH cycle AS MATERIALIZED (
    SELECT id, state, rules
    FROM evaluations.cycles
    WHERE tenant_id = %(tenant_id)s::uuid
      AND id = %(cycle_id)s::uuid
    FOR SHARE
),
evaluated AS MATERIALIZED (
    SELECT participant.person_id
    FROM evaluations.participants AS participant
    WHERE participant.tenant_id = %(tenant_id)s::uuid
      AND participant.cycle_id = %(cycle_id)s::uuid
      AND (SELECT cycle.state FROM cycle) = 'draft'
),
edge AS MATERIALIZED (
    SELECT edge.person_id, edge.manager_id, report.active AS report_is_active
    FROM evaluations.manager_edges AS edge
    JOIN evaluations.people AS report
        ON report.tenant_id = edge.tenant_id
       AND report.id = edge.person_id
    WHERE edge.tenant_id = %(tenant_id)s::uuid
      AND edge.ends_on IS NULL
),
wanted AS MATERIALIZED (
    SELECT evaluated.person_id AS participant_id, evaluated.person_id AS evaluator_id, 'self' AS relation
    FROM evaluated
    WHERE (SELECT 'self' = ANY (cycle.rules) FROM cycle)
    UNION ALL
    SELECT evaluated.person_id, edge.manager_id, 'manager'
    FROM evaluated
    JOIN edge ON edge.person_id = evaluated.person_id
    WHERE (SELECT 'manager' = ANY (cycle.rules) FROM cycle)
    UNION ALL
    SELECT evaluated.person_id, edge.person_id, 'upward'
    FROM evaluated
    JOIN edge ON edge.manager_id = evaluated.person_id
    WHERE (SELECT 'upward' = ANY (cycle.rules) FROM cycle)
      AND edge.report_is_active
),
removed AS (
    DELETE FROM evaluations.evaluations AS evaluation
    WHERE (SELECT cycle.state FROM cycle) = 'draft'
      AND evaluation.tenant_id = %(tenant_id)s::uuid
      AND evaluation.cycle_id = %(cycle_id)s::uuid
      AND evaluation.relation <> 'peer'
      AND NOT EXISTS (
          SELECT
          FROM wanted
          WHERE wanted.participant_id = evaluation.participant_id
            AND wanted.evaluator_id = evaluation.evaluator_id
            AND wanted.relation = evaluation.relation
      )
    RETURNING evaluation.id
),
created AS (
    INSERT INTO evaluations.evaluations (tenant_id, cycle_id, participant_id, evaluator_id, relation)
    SELECT %(tenant_id)s::uuid, %(cycle_id)s::uuid, wanted.participant_id, wanted.evaluator_id, wanted.relation
    FROM wanted
    ORDER BY wanted.participant_id, wanted.evaluator_id, wanted.relation
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT cycle.state,
       (SELECT count(*) FROM created),
       (SELECT count(*) FROM removed)
FROM cycle;

-- name: count_relations
-- How many evaluations of a cycle there are, by relation.
SELECT relation, count(*)
FROM evaluations.evaluations
WHERE tenant_id = %(tenant_id)s::uuid
  AND cycle_id = %(cycle_id)s::uuid
GROUP BY relation;

-- name: add_peers
-- Asks the named peers about participants of a draft, under the same lock.
WITH cycle AS MATERIALIZED (
    SELECT id, state, rules
    FROM evaluations.cycles
    WHERE tenant_id = %(tenant_id)s::uuid
      AND id = %(cycle_id)s::uuid
    FOR SHARE
),
given AS MATERIALIZED (
    SELECT DISTINCT given.participant_id, given.evaluator_id
    FROM unnest(%(participant_ids)s::uuid[], %(evaluator_ids)s::uuid[])
        AS given (participant_id, evaluator_id)
),
known AS MATERIALIZED (
    SELECT given.participant_id,
           given.evaluator_id,
           person.external_id,
           peer.external_id AS peer_external_id,
           peer.active,
           participant.person_id IS NOT NULL AS takes_part
    FROM given
    JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.id = given.participant_id
    JOIN evaluations.people AS peer
        ON peer.tenant_id = %(tenant_id)s::uuid
       AND peer.id = given.evaluator_id
    LEFT JOIN evaluations.participants AS participant
        ON participant.tenant_id = %(tenant_id)s::uuid
       AND participant.cycle_id = %(cycle_id)s::uuid
       AND participant.person_id = given.participant_id
),
added AS (
    INSERT INTO evaluations.evaluations (tenant_id, cycle_id, participant_id, evaluator_id, relation)
    SELECT %(tenant_id)s::uuid, %(cycle_id)s::uuid, known.participant_id, known.evaluator_id, 'peer'
    FROM known
    WHERE (SELECT cycle.state = 'draft' AND 'peer' = ANY (cycle.rules) FROM cycle)
      AND known.active
      AND known.takes_part
      AND known.participant_id <> known.evaluator_id
    ORDER BY known.participant_id, known.evaluator_id
    ON CONFLICT DO NOTHING
    RETURNING participant_id, evaluator_id
),
outcome AS (
    SELECT known.external_id,
           known.peer_external_id,
           CASE
               WHEN NOT known.takes_part THEN 'not_participants'
               WHEN known.participant_id = known.evaluator_id THEN 'selves'
               WHEN NOT known.active THEN 'inactive'
               WHEN added.participant_id IS NOT NULL THEN 'added'
               ELSE 'already_there'
           END AS outcome
    FROM known
    LEFT JOIN added
        ON added.participant_id = known.participant_id
       AND added.evaluator_id = known.evaluator_id
)
SELECT cycle.state,
       outcome.outcome,
       count(outcome.outcome),
       coalesce(
           array_agg(
               DISTINCT CASE outcome.outcome
                   WHEN 'inactive' THEN outcome.peer_external_id
                   ELSE outcome.external_id
               END
           ) FILTER (WHERE outcome.outcome NOT IN ('added', 'already_there')),
           '{}'
       )
FROM cycle
LEFT JOIN outcome ON true
GROUP BY cycle.state, outcome.outcome;
