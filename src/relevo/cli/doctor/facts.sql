-- What the server's catalogue says about what delivery rests on. Only catalogues are read.

-- name: read_server
-- The server and the session: version, standby, isolation, read-only, clock.
SELECT
    current_setting('server_version'),
    current_setting('server_version_num')::integer,
    pg_catalog.pg_is_in_recovery(),
    current_setting('default_transaction_isolation'),
    current_setting('default_transaction_read_only')::boolean,
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

-- name: read_autovacuum
-- Whether autovacuum is on, whether it can count, and how often it looks, in seconds.
SELECT
    current_setting('autovacuum')::boolean,
    current_setting('track_counts')::boolean,
    extract(epoch FROM current_setting('autovacuum_naptime')::interval)::integer;

-- name: list_dead_rows
-- How many rows of each table of the engine are alive and how many dead, and whether autovacuum leaves it out.
SELECT
    c.relname::text,
    pg_catalog.pg_stat_get_live_tuples(c.oid),
    pg_catalog.pg_stat_get_dead_tuples(c.oid),
    EXISTS (
        SELECT
        FROM pg_catalog.unnest(c.reloptions) AS o (said)
        WHERE o.said ~* '^autovacuum_enabled=(f|of|n|0)'
    )
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n
    ON n.oid = c.relnamespace
WHERE n.nspname = 'relevo'
  AND c.relkind = 'r'
ORDER BY c.relname;

-- name: list_holders
-- Who keeps dead rows of this database from being removed, the oldest first: sessions, prepared
-- transactions, and replication slots. Times of other users' sessions are NULL without pg_read_all_stats.
SELECT
    h.kind,
    h.name,
    h.pid,
    h.xmin_age,
    h.seconds
FROM (
    SELECT
        'session' AS kind,
        coalesce(nullif(a.application_name, ''), a.usename::text, '') AS name,
        a.pid,
        greatest(pg_catalog.age(a.backend_xmin), pg_catalog.age(a.backend_xid)) AS xmin_age,
        extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::float8 AS seconds
    FROM pg_catalog.pg_stat_activity AS a
    -- A walsender belongs to no database: it holds the rows that a standby still reads.
    WHERE (a.datname = pg_catalog.current_database() OR a.backend_type = 'walsender')
      AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
      AND a.pid <> pg_catalog.pg_backend_pid()
      AND NOT EXISTS (
          SELECT
          FROM pg_catalog.pg_stat_progress_vacuum AS v
          WHERE v.pid = a.pid
      )
    UNION ALL
    SELECT
        'prepared',
        p.gid,
        NULL,
        pg_catalog.age(p.transaction),
        extract(epoch FROM pg_catalog.clock_timestamp() - p.prepared)::float8
    FROM pg_catalog.pg_prepared_xacts AS p
    WHERE p.database = pg_catalog.current_database()
    UNION ALL
    SELECT
        CASE WHEN s.active THEN 'slot' ELSE 'stale slot' END,
        s.slot_name::text,
        s.active_pid,
        pg_catalog.age(s.xmin),
        NULL
    FROM pg_catalog.pg_replication_slots AS s
) AS h
WHERE h.xmin_age IS NOT NULL
ORDER BY h.xmin_age DESC;

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
