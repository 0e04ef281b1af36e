-- name: lock_people
-- Lets one import of a tenant run at a time: two at once could close a loop together.
SELECT pg_advisory_xact_lock(hashtextextended('evaluations.people ' || %(tenant_id)s::uuid::text, 0));

-- name: list_known_people
-- Everybody of the tenant with their present manager: what an import is checked against.
SELECT person.external_id,
       person.full_name,
       person.email,
       person.active,
       manager.external_id
FROM evaluations.people AS person
LEFT JOIN evaluations.manager_edges AS edge
    ON edge.tenant_id = person.tenant_id
   AND edge.person_id = person.id
   AND edge.ends_on IS NULL
LEFT JOIN evaluations.people AS manager
    ON manager.tenant_id = edge.tenant_id
   AND manager.id = edge.manager_id
WHERE person.tenant_id = %(tenant_id)s::uuid;

-- name: upsert_people
-- Writes the rows that are new or differ and answers their external ids. A column that
-- the file does not have keeps what the database says.
WITH given AS MATERIALIZED (
    SELECT external_id, full_name, first_name, last_name, sort_key,
           email, language, department, job_title, hire_date, active
    FROM unnest(
        %(external_ids)s::text[], %(full_names)s::text[], %(first_names)s::text[],
        %(last_names)s::text[], %(sort_keys)s::text[], %(emails)s::text[],
        %(languages)s::text[], %(departments)s::text[], %(job_titles)s::text[],
        %(hire_dates)s::date[], %(actives)s::boolean[]
    ) AS given (external_id, full_name, first_name, last_name, sort_key,
                email, language, department, job_title, hire_date, active)
),
written AS (
    INSERT INTO evaluations.people AS person
        (tenant_id, external_id, full_name, first_name, last_name, sort_key,
         email, language, department, job_title, hire_date, active)
    SELECT %(tenant_id)s::uuid,
           given.external_id,
           given.full_name,
           given.first_name,
           given.last_name,
           given.sort_key,
           CASE WHEN %(has_email)s::boolean OR known.id IS NULL THEN given.email ELSE known.email END,
           CASE WHEN %(has_language)s::boolean OR known.id IS NULL THEN given.language ELSE known.language END,
           CASE WHEN %(has_department)s::boolean OR known.id IS NULL THEN given.department ELSE known.department END,
           CASE WHEN %(has_job_title)s::boolean OR known.id IS NULL THEN given.job_title ELSE known.job_title END,
           CASE WHEN %(has_hire_date)s::boolean OR known.id IS NULL THEN given.hire_date ELSE known.hire_date END,
           CASE WHEN %(has_active)s::boolean OR known.id IS NULL THEN given.active ELSE known.active END
    FROM given
    LEFT JOIN evaluations.people AS known
        ON known.tenant_id = %(tenant_id)s::uuid
       AND known.external_id = given.external_id
    ORDER BY given.external_id
    ON CONFLICT (tenant_id, external_id) DO UPDATE
    SET full_name = excluded.full_name,
        first_name = excluded.first_name,
        last_name = excluded.last_name,
        sort_key = excluded.sort_key,
        email = excluded.email,
        language = excluded.language,
        department = excluded.department,
        job_title = excluded.job_title,
        hire_date = excluded.hire_date,
        active = excluded.active,
        updated_at = now()
    WHERE (person.full_name, person.first_name, person.last_name, person.sort_key,
           person.email, person.language, person.department, person.job_title,
           person.hire_date, person.active)
        IS DISTINCT FROM
          (excluded.full_name, excluded.first_name, excluded.last_name, excluded.sort_key,
           excluded.email, excluded.language, excluded.department, excluded.job_title,
           excluded.hire_date, excluded.active)
    RETURNING person.external_id
)
SELECT coalesce(array_agg(written.external_id), '{}')
FROM written;

-- name: close_manager_edges
-- Ends the edges of people whose file names another manager or none; answers whose.
WITH given AS MATERIALIZED (
    SELECT person.id, person.external_id, manager.id AS manager_id
    FROM unnest(%(external_ids)s::text[], %(managers)s::text[]) AS given (external_id, manager)
    JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.external_id = given.external_id
    LEFT JOIN evaluations.people AS manager
        ON manager.tenant_id = %(tenant_id)s::uuid
       AND manager.external_id = given.manager
),
closed AS (
    UPDATE evaluations.manager_edges AS edge
    SET ends_on = greatest(edge.starts_on, coalesce(%(effective_on)s::date, current_date))
    FROM given
    WHERE edge.tenant_id = %(tenant_id)s::uuid
      AND edge.person_id = given.id
      AND edge.ends_on IS NULL
      AND edge.manager_id IS DISTINCT FROM given.manager_id
    RETURNING given.external_id
)
SELECT coalesce(array_agg(closed.external_id), '{}')
FROM closed;

-- name: open_manager_edges
-- Begins the edges that the file names and that are not open, never before an earlier
-- edge of the same person ended; answers whose.
WITH opened AS (
    INSERT INTO evaluations.manager_edges (tenant_id, person_id, manager_id, starts_on)
    SELECT %(tenant_id)s::uuid,
           person.id,
           manager.id,
           greatest(coalesce(%(effective_on)s::date, current_date), past.ended_on)
    FROM unnest(%(external_ids)s::text[], %(managers)s::text[]) AS given (external_id, manager)
    JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.external_id = given.external_id
    JOIN evaluations.people AS manager
        ON manager.tenant_id = %(tenant_id)s::uuid
       AND manager.external_id = given.manager
    LEFT JOIN (
        SELECT edge.person_id,
               max(edge.ends_on) AS ended_on,
               bool_or(edge.ends_on IS NULL) AS is_open
        FROM evaluations.manager_edges AS edge
        WHERE edge.tenant_id = %(tenant_id)s::uuid
        GROUP BY edge.person_id
    ) AS past ON past.person_id = person.id
    WHERE past.is_open IS NOT TRUE
    ORDER BY given.external_id
    RETURNING person_id
)
SELECT coalesce(array_agg(person.external_id), '{}')
FROM opened
JOIN evaluations.people AS person
    ON person.tenant_id = %(tenant_id)s::uuid
   AND person.id = opened.person_id;

-- name: count_people
-- The active people of the tenant, and how many of them lead somebody active.
SELECT count(*),
       count(*) FILTER (
           WHERE person.id IN (
               SELECT edge.manager_id
               FROM evaluations.manager_edges AS edge
               JOIN evaluations.people AS report
                   ON report.tenant_id = edge.tenant_id
                  AND report.id = edge.person_id
               WHERE edge.tenant_id = %(tenant_id)s::uuid
                 AND edge.ends_on IS NULL
                 AND report.active
           )
       )
FROM evaluations.people AS person
WHERE person.tenant_id = %(tenant_id)s::uuid
  AND person.active;

-- name: list_people
-- One page of people by name; the page after goes on behind the last key and id.
SELECT person.id,
       person.external_id,
       person.full_name,
       person.email,
       person.language,
       person.department,
       person.job_title,
       person.active,
       manager.full_name,
       person.sort_key
FROM evaluations.people AS person
LEFT JOIN evaluations.manager_edges AS edge
    ON edge.tenant_id = person.tenant_id
   AND edge.person_id = person.id
   AND edge.ends_on IS NULL
LEFT JOIN evaluations.people AS manager
    ON manager.tenant_id = edge.tenant_id
   AND manager.id = edge.manager_id
WHERE person.tenant_id = %(tenant_id)s::uuid
  AND (person.sort_key, person.id) > (%(after_key)s::text COLLATE "C", %(after_id)s::uuid)
ORDER BY person.sort_key, person.id
LIMIT %(limit)s::integer;

-- name: resolve_people
-- Whom each reference names: an external id, or an address that only one person has.
WITH given AS MATERIALIZED (
    SELECT DISTINCT reference
    FROM unnest(%(references)s::text[]) AS given (reference)
),
by_address AS (
    SELECT given.reference,
           (array_agg(person.id))[1] AS id
    FROM given
    JOIN evaluations.people AS person
        ON person.tenant_id = %(tenant_id)s::uuid
       AND person.email_key = lower(given.reference COLLATE "C")
    GROUP BY given.reference
    HAVING count(*) = 1
)
SELECT given.reference,
       coalesce(person.id, by_address.id)
FROM given
LEFT JOIN evaluations.people AS person
    ON person.tenant_id = %(tenant_id)s::uuid
   AND person.external_id = given.reference
LEFT JOIN by_address
    ON by_address.reference = given.reference
WHERE coalesce(person.id, by_address.id) IS NOT NULL;
