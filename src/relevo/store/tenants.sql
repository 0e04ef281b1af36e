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
