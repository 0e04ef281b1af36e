SELECT id FROM evaluations.cycles
WHERE tenant_id = %(tenant_id)s AND id = %(cycle_id)s AND state = 'draft'
FOR UPDATE;
UPDATE evaluations.cycles
SET state = 'active', activated_at = now(), activated_by = 'raw', hold_until = now()
WHERE tenant_id = %(tenant_id)s AND id = %(cycle_id)s;
UPDATE evaluations.evaluations
SET state = 'active'
WHERE tenant_id = %(tenant_id)s AND cycle_id = %(cycle_id)s AND state = 'draft';
INSERT INTO relevo.jobs (tenant_id, queue, kind, max_attempts, priority, aggregate_id, payload, actor)
SELECT tenant_id, 'mail', 'cycle.dispatched', 6, 1, cycle_id::text,
       jsonb_build_object('evaluator_id', evaluator_id), 'raw'
FROM evaluations.evaluations
WHERE tenant_id = %(tenant_id)s AND cycle_id = %(cycle_id)s AND state = 'active'
GROUP BY tenant_id, cycle_id, evaluator_id
ORDER BY evaluator_id
ON CONFLICT DO NOTHING;
INSERT INTO evaluations.cycle_events (tenant_id, cycle_id, what, actor)
VALUES (%(tenant_id)s, %(cycle_id)s, 'activated', 'raw');
