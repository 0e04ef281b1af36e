-- name: set_tenant
-- Says whose rows this transaction may see and write; the end of the transaction forgets it.
SELECT set_config('relevo.tenant', %(tenant_id)s::text, true);

-- name: read_backend
-- Answers the process id of the session; a pooler told the client another when it connected.
SELECT pg_backend_pid();
