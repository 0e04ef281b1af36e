-- What was applied to this database: the statements of the ledger itself.

-- name: lock_migrations
-- Answers whether this session is the only migrator now; never waits, because a
-- waiting statement holds a snapshot that a concurrent index build waits for.
SELECT pg_catalog.pg_try_advisory_lock(%(key)s::bigint);

-- name: read_server
-- Answers what decides whether this session can migrate at all.
SELECT
    current_user::text,
    pg_catalog.current_database()::text,
    pg_catalog.pg_is_in_recovery(),
    n.oid IS NOT NULL,
    CASE
        WHEN n.oid IS NULL THEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')
        ELSE pg_catalog.pg_has_role(n.nspowner, 'USAGE')
    END,
    c.oid IS NOT NULL
FROM (SELECT) AS always
LEFT JOIN pg_catalog.pg_namespace AS n
    ON n.nspname = 'relevo'
LEFT JOIN pg_catalog.pg_class AS c
    ON c.relnamespace = n.oid
   AND c.relname = 'migrations';

-- name: create_schema
-- Makes the place of everything.
CREATE SCHEMA relevo;

-- name: create_ledger
-- Makes the table that remembers what was applied.
CREATE TABLE IF NOT EXISTS relevo.migrations (
    line text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    applied_by text NOT NULL DEFAULT session_user,
    PRIMARY KEY (line, version)
);

-- name: read_ledger
-- Answers every migration that was applied, in order.
SELECT
    line,
    version,
    name,
    checksum,
    applied_at
FROM relevo.migrations
ORDER BY line, version;

-- name: hold_vacuum_off
-- Waits until no vacuum is at a table of a line, and keeps the next one away until the
-- transaction ends. Nobody who reads or writes rows waits behind this; behind a statement that
-- waits for a vacuum everybody would, and the server ends a vacuum for it only after a second.
DO $$
DECLARE
    short text := pg_catalog.current_setting('lock_timeout');
    place text;
BEGIN
    PERFORM pg_catalog.set_config('lock_timeout', '5s', true);
    FOR place IN
        SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname)
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n
            ON n.oid = c.relnamespace
        WHERE c.relkind = 'r'
          AND pg_catalog.pg_has_role(c.relowner, 'USAGE')
          AND n.nspname IN (SELECT 'relevo' UNION ALL SELECT m.line FROM relevo.migrations AS m)
        ORDER BY c.oid
    LOOP
        EXECUTE 'LOCK TABLE ONLY ' || place || ' IN SHARE UPDATE EXCLUSIVE MODE';
    END LOOP;
    PERFORM pg_catalog.set_config('lock_timeout', short, true);
END $$;

-- name: record_migration
-- Remembers one migration, in its own transaction where it has one.
INSERT INTO relevo.migrations (line, version, name, checksum)
VALUES (%(line)s::text, %(version)s::integer, %(name)s::text, %(checksum)s::text);

-- name: find_index
-- Answers whether an index of that name is valid; no row where there is none.
SELECT i.indisvalid AND i.indisready
FROM pg_catalog.pg_index AS i
JOIN pg_catalog.pg_class AS c
    ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace AS n
    ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s::text
  AND c.relname = %(name)s::text;
