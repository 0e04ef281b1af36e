-- Who this database is: the one row of relevo.installation.

-- name: read_identity
-- Answers what is pinned, if anything, beside what the server says now.
SELECT
    i.system_identifier,
    i.database_name,
    i.environment,
    relevo.system_identifier(),
    pg_catalog.current_database()::text
FROM (SELECT) AS always
LEFT JOIN relevo.installation AS i
    ON i.singleton;

-- name: pin_identity
-- Pins the identity of a database that has none yet.
INSERT INTO relevo.installation (system_identifier, database_name, environment)
VALUES (relevo.system_identifier(), pg_catalog.current_database(), %(environment)s::text)
ON CONFLICT (singleton) DO NOTHING;

-- name: adopt_identity
-- Pins what the server says now, whatever was pinned before.
INSERT INTO relevo.installation (system_identifier, database_name, environment)
VALUES (relevo.system_identifier(), pg_catalog.current_database(), %(environment)s::text)
ON CONFLICT (singleton) DO UPDATE
SET system_identifier = excluded.system_identifier,
    database_name = excluded.database_name,
    environment = excluded.environment,
    adopted_at = pg_catalog.now(),
    adopted_by = session_user
RETURNING system_identifier, database_name, environment;

-- name: read_mode
-- Answers whether this installation has one tenant or many.
SELECT mode
FROM relevo.installation;

-- name: set_mode
-- Decides whether this installation has one tenant or many.
UPDATE relevo.installation
SET mode = %(mode)s::text
RETURNING mode;
