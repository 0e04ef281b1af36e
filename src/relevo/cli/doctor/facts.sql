-- What the server's catalogue says about what delivery rests on. Only catalogues are read.

-- name: read_server
-- The server and the session: version, standby, isolation, read-only, autovacuum, clock.
SELECT
    current_setting('server_version'),
    current_setting('server_version_num')::integer,
    pg_catalog.pg_is_in_recovery(),
    current_setting('default_transaction_isolation'),
    current_setting('default_transaction_read_only')::boolean,
    current_setting('autovacuum')::boolean,
    extract(epoch FROM pg_catalog.clock_timestamp())::float8;

-- name: read_session
-- As whom this session works, and the settings that the claim's plan rests on.
SELECT
    current_user::text,
    s.name,
    pg_catalog.current_setting(s.name)
FROM pg_catalog.unnest(%(settings)s::text[]) AS s (name);

-- name: read_powers
-- The roles that can do more than they should: both see past row-level security, or one is the other.
SELECT
    r.rolname::text,
    r.rolsuper OR r.rolbypassrls
FROM pg_catalog.pg_roles AS r
WHERE r.rolname IN ('relevo_worker', 'relevo_web')
  AND (
      r.rolsuper
      OR r.rolbypassrls
      OR (r.rolname = 'relevo_web' AND pg_catalog.pg_has_role(r.oid, 'relevo_worker', 'MEMBER'))
  )
ORDER BY r.rolname;

-- name: list_open_tables
-- The tables with a tenant's rows whose row-level security is off, or does not hold for the owner.
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n
    ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = c.oid
   AND a.attname = 'tenant_id'
   AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p')
  AND n.nspname = ANY (%(schemas)s::text[])
  AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
ORDER BY 1;

-- name: list_indexes
-- The indexes of the given schemas, and whether each can be used.
SELECT
    pg_catalog.format('%%I.%%I', n.nspname, c.relname),
    i.indisvalid AND i.indisready
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c
    ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace AS n
    ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%(schemas)s::text[])
ORDER BY 1;

-- name: read_connections
-- How many connections the server has, how many are left, and what this login and database may use.
SELECT
    current_setting('max_connections')::integer,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer
        - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')::integer,
    (SELECT r.rolconnlimit FROM pg_catalog.pg_roles AS r WHERE r.rolname = session_user),
    (SELECT d.datconnlimit FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database());

-- name: read_dead_rows
-- How many rows of the jobs table are alive, and how many wait for autovacuum.
SELECT
    s.n_live_tup,
    s.n_dead_tup
FROM pg_catalog.pg_stat_all_tables AS s
WHERE s.schemaname = 'relevo'
  AND s.relname = 'jobs';

-- name: read_oldest_transaction
-- The session of this database that has been idle inside a transaction for the longest time.
SELECT
    a.pid,
    extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8,
    coalesce(a.application_name, '')
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname = pg_catalog.current_database()
  AND a.state LIKE 'idle in transaction%%'
ORDER BY a.xact_start
LIMIT 1;

-- name: find_jobs_table
-- Whether the first migration was ever applied here.
SELECT EXISTS (
    SELECT
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n
        ON n.oid = c.relnamespace
    WHERE n.nspname = 'relevo'
      AND c.relname = 'jobs'
);
