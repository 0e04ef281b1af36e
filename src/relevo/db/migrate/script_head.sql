-- Everything that relevo needs in this database, for its administrator. Run it with psql,
-- as a superuser or a role that may create roles, and not in a single transaction:
--   psql -X -v owner=NAME -f relevo.sql DATABASE
-- owner        who shall own the schema and migrate from then on; by default who runs this
-- environment  the marker of this installation; by default the one below
-- It may be run again: what is there already stays as it is.
\set ON_ERROR_STOP on
\set AUTOCOMMIT on
\encoding UTF8
\if :{?owner}
\else
SELECT current_user AS owner \gset
\endif
\if :{?environment}
\else
\set environment @environment@
\endif

SET search_path = '';
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = 0;
SET standard_conforming_strings = on;
SET client_min_messages = warning;

-- Nothing is written while files and database disagree.
DO $relevo$
DECLARE
    fault record;
BEGIN
    IF pg_catalog.current_setting('server_version_num')::integer < 150000 THEN
        RAISE EXCEPTION 'relevo needs PostgreSQL 15 or newer';
    END IF;
    IF NOT pg_catalog.pg_try_advisory_lock(@lock_key@) THEN
        RAISE EXCEPTION 'another migration of this database is running; wait until it ends and run this again';
    END IF;
    IF pg_catalog.to_regclass('relevo.migrations') IS NULL THEN
        RETURN;
    END IF;
    SELECT applied.line, applied.version, applied.name INTO fault
    FROM relevo.migrations AS applied
    LEFT JOIN (
        VALUES
@known@
    ) AS known (line, version, checksum)
        ON known.line = applied.line
       AND known.version = applied.version
    WHERE applied.line = ANY (ARRAY[@lines@])
      AND applied.checksum IS DISTINCT FROM known.checksum
    ORDER BY applied.line, applied.version
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'migration % % of line % was applied with another content, or by a newer release',
            fault.version, fault.name, fault.line
            USING HINT = 'print this script with the release that migrated the database last, or a newer one';
    END IF;
END $relevo$;

-- Roles belong to the whole server: another database may be creating them right now.
DO $relevo$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['relevo_worker', 'relevo_web'] LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
END $relevo$;

-- The owner may become either role; from 16 on the server can tell that from inheriting it.
SELECT
    pg_catalog.current_setting('server_version_num')::integer >= 160000 AS relevo_set_option,
    NOT pg_catalog.has_database_privilege(:'owner', pg_catalog.current_database(), 'CREATE') AS relevo_grant_create
\gset
\if :relevo_set_option
GRANT relevo_worker, relevo_web TO :"owner" WITH SET TRUE, INHERIT FALSE;
\else
GRANT relevo_worker, relevo_web TO :"owner";
\endif
\if :relevo_grant_create
GRANT CREATE ON DATABASE :"DBNAME" TO :"owner";
\endif
@role_settings@

SET ROLE :"owner";
SET row_security = off;
SELECT pg_catalog.to_regnamespace('relevo') IS NULL AS relevo_create_schema \gset
\if :relevo_create_schema
CREATE SCHEMA relevo;
\endif
