-- transaction: none
-- One notification per tenant, kind, cycle and evaluator, whatever the calling code does.
-- Built beside the running work; where duplicates stand in its way they are to be removed
-- first, and the migration is run again.

CREATE UNIQUE INDEX CONCURRENTLY jobs_cycle_dispatched_once ON relevo.jobs
    (tenant_id, kind, aggregate_id, (payload ->> 'evaluator_id'))
    WHERE kind = 'cycle.dispatched';
