-- The two roles that relevo works as. They are NOLOGIN and shared by all databases of a server.

-- name: read_roles
-- Answers of each role whether it exists, and who is asking.
SELECT
    wanted.name,
    r.oid IS NOT NULL,
    coalesce(pg_catalog.pg_has_role(current_user, r.oid, %(settable)s::text), false),
    coalesce(pg_catalog.pg_has_role(current_user, r.oid, 'USAGE WITH ADMIN OPTION'), false),
    me.rolsuper OR me.rolcreaterole,
    current_user::text
FROM pg_catalog.unnest(%(names)s::text[]) WITH ORDINALITY AS wanted (name, place)
CROSS JOIN pg_catalog.pg_roles AS me
LEFT JOIN pg_catalog.pg_roles AS r
    ON r.rolname = wanted.name
WHERE me.rolname = current_user
ORDER BY wanted.place;

-- name: read_role_settings
-- Answers the settings that a role starts with in this database.
SELECT pg_catalog.unnest(s.setconfig)
FROM pg_catalog.pg_db_role_setting AS s
JOIN pg_catalog.pg_roles AS r
    ON r.oid = s.setrole
JOIN pg_catalog.pg_database AS d
    ON d.oid = s.setdatabase
WHERE r.rolname = %(name)s::text
  AND d.datname = pg_catalog.current_database();
