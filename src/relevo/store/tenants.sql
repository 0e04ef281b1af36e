-- name: find_tenant
-- The tenant with this id or slug; an id is never read as another tenant's slug.
SELECT
    t.id,
    t.slug
FROM relevo.tenants AS t
WHERE t.id::text = lower(%(name)s::text)
   OR t.slug = %(name)s::text
ORDER BY t.id::text = lower(%(name)s::text) DESC
LIMIT 1;

-- name: insert_tenant
-- Adds a tenant; answers no row where the slug is taken.
INSERT INTO relevo.tenants (id, slug, name)
VALUES (%(id)s::uuid, %(slug)s::text, %(name)s::text)
ON CONFLICT (slug) DO NOTHING
RETURNING id;

-- name: list_tenants
-- Every tenant, by slug.
SELECT
    t.id,
    t.slug,
    t.name,
    t.created_at
FROM relevo.tenants AS t
ORDER BY t.slug;
