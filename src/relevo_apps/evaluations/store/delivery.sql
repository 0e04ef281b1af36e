-- name: read_invitation
-- What a notification has to say at this moment: the cycle, the person who is asked, and
-- one row for each evaluation that still waits for them, or a single one without any.
SELECT cycle.name,
       cycle.state,
       cycle.due_on,
       evaluator.full_name,
       evaluator.first_name,
       evaluator.email,
       evaluator.language,
       evaluator.active,
       evaluation.relation,
       participant.full_name
FROM evaluations.cycles AS cycle
JOIN evaluations.people AS evaluator
    ON evaluator.tenant_id = cycle.tenant_id
   AND evaluator.id = %(evaluator_id)s::uuid
LEFT JOIN evaluations.evaluations AS evaluation
    ON evaluation.tenant_id = cycle.tenant_id
   AND evaluation.cycle_id = cycle.id
   AND evaluation.evaluator_id = evaluator.id
   AND evaluation.state = 'active'
LEFT JOIN evaluations.people AS participant
    ON participant.tenant_id = evaluation.tenant_id
   AND participant.id = evaluation.participant_id
WHERE cycle.tenant_id = %(tenant_id)s::uuid
  AND cycle.id = %(cycle_id)s::uuid
ORDER BY array_position(ARRAY['self', 'manager', 'upward', 'peer'], evaluation.relation),
         participant.sort_key,
         participant.id;
