-- transaction: none
-- What the pruner reads: only rows that will go, in the order in which they may.

CREATE INDEX CONCURRENTLY jobs_prune ON relevo.jobs
    (tenant_id, prune_at)
    WHERE prune_at IS NOT NULL;
