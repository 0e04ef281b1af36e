-- The archive: where finished jobs go when their retention is over, where an installation wants
-- them kept. Nobody changes its rows; they leave with the whole month (UTC) in which they ended.

-- Whether it is on, and for how many months; NULL keeps it for ever.
ALTER TABLE relevo.installation
    ADD COLUMN archiving boolean NOT NULL DEFAULT false,
    ADD COLUMN archive_months integer,
    ADD CONSTRAINT installation_archive_months CHECK (archive_months BETWEEN 1 AND 1200);

-- There is no default partition: making a month beside one would lock and read it, and a row
-- whose month is missing can wait in relevo.jobs until it is made.
CREATE TABLE relevo.archive (
    tenant_id uuid NOT NULL,
    id bigint NOT NULL,
    available_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz NOT NULL,
    requeued_at timestamptz,
    archived_at timestamptz NOT NULL DEFAULT now(),
    attempt integer NOT NULL,
    excused integer NOT NULL,
    losses integer NOT NULL,
    max_attempts integer NOT NULL,
    priority smallint NOT NULL,
    outcome text NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    aggregate_id text,
    lane_key text,
    key text,
    actor text,
    requeued_by text,
    payload jsonb NOT NULL,
    headers jsonb,
    result jsonb,
    last_error text,
    attempts jsonb NOT NULL,
    PRIMARY KEY (tenant_id, id, finished_at)
) PARTITION BY RANGE (finished_at);

ALTER TABLE relevo.archive ADD CONSTRAINT archive_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);

ALTER TABLE relevo.archive ENABLE ROW LEVEL SECURITY;
ALTER TABLE relevo.archive FORCE ROW LEVEL SECURITY;

CREATE POLICY archive_tenant ON relevo.archive
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY archive_worker ON relevo.archive TO relevo_worker USING (true) WITH CHECK (true);

-- The months that have a table.
CREATE FUNCTION relevo.archive_months() RETURNS TABLE (name text, starts_at timestamptz)
    LANGUAGE sql STABLE SET search_path = '' AS $$
    SELECT
        c.relname::text,
        make_timestamptz(substr(c.relname, 9, 4)::integer, substr(c.relname, 14, 2)::integer, 1, 0, 0, 0, 'UTC')
    FROM pg_catalog.pg_inherits AS i
    JOIN pg_catalog.pg_class AS c
        ON c.oid = i.inhrelid
    WHERE i.inhparent = 'relevo.archive'::regclass
$$;

-- The beginning of the oldest month that the archive keeps.
CREATE FUNCTION relevo.archive_since() RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = '' AS $$
    SELECT coalesce(
        (
            SELECT date_trunc('month', now() AT TIME ZONE 'UTC' - make_interval(months => i.archive_months))
                AT TIME ZONE 'UTC'
            FROM relevo.installation AS i
        ),
        '-infinity'
    )
$$;

-- Makes the table of a month, and nothing else: a worker may have it done with the owner's rights.
-- False where it is there already, or where somebody holds a lock that is needed; the next try
-- comes within a minute. Attached, not made as a partition: jobs are read and moved meanwhile.
CREATE FUNCTION relevo.make_archive_month(wanted timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = '' SET timezone = 'UTC' SET lock_timeout = '1s' AS $$
DECLARE
    month timestamptz := date_trunc('month', wanted);
    name text := to_char(month, '"archive_"YYYY_MM');
BEGIN
    IF month < '1970-01-01' OR month > date_trunc('month', now()) + interval '1 month' THEN
        RAISE EXCEPTION 'no job can have ended in the month of %', wanted
            USING ERRCODE = 'invalid_parameter_value', HINT = 'correct finished_at of the job';
    END IF;
    -- One at a time; who comes second finds the month.
    LOCK TABLE ONLY relevo.archive IN SHARE UPDATE EXCLUSIVE MODE;
    IF to_regclass(format('relevo.%I', name)) IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE relevo.%I (LIKE relevo.archive INCLUDING ALL)', name);
    EXECUTE format(
        'ALTER TABLE relevo.archive ATTACH PARTITION relevo.%I FOR VALUES FROM (%L) TO (%L)',
        name, month, month + interval '1 month'
    );
    -- A table's own policies hold for who names the table itself.
    EXECUTE format('ALTER TABLE relevo.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE relevo.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
        'CREATE POLICY archive_tenant ON relevo.%I'
        ' USING (tenant_id = (SELECT relevo.current_tenant()))'
        ' WITH CHECK (tenant_id = (SELECT relevo.current_tenant()))', name
    );
    EXECUTE format(
        'CREATE POLICY archive_worker ON relevo.%I TO relevo_worker USING (true) WITH CHECK (true)', name
    );
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END $$;

-- Drops the oldest month whose time is over, one a call, and answers its name. It waits but a
-- moment for its lock: who reads the archive stands behind it meanwhile, and nobody else does.
CREATE FUNCTION relevo.drop_archive_month() RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = '' SET timezone = 'UTC' SET lock_timeout = '200ms' AS $$
DECLARE
    gone text;
BEGIN
    LOCK TABLE ONLY relevo.archive IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    SELECT m.name INTO gone
    FROM relevo.archive_months() AS m
    WHERE m.starts_at < relevo.archive_since()
    ORDER BY m.starts_at
    LIMIT 1;
    IF gone IS NOT NULL THEN
        EXECUTE format('DROP TABLE relevo.%I', gone);
    END IF;
    RETURN gone;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END $$;

REVOKE EXECUTE ON FUNCTION relevo.make_archive_month(timestamptz), relevo.drop_archive_month() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION relevo.make_archive_month(timestamptz), relevo.drop_archive_month() TO relevo_worker;

GRANT SELECT ON relevo.archive TO relevo_worker, relevo_web;
GRANT INSERT ON relevo.archive TO relevo_worker;

-- While the archive is on, a worker that does not know it prunes nothing: what it deletes would be
-- lost. It finds no row to delete and waits for its next look; a newer one says that it knows.
CREATE POLICY jobs_archived_first ON relevo.jobs AS RESTRICTIVE FOR DELETE TO relevo_worker
    USING (
        prune_at IS NULL
        OR prune_at > now()
        OR current_setting('relevo.knows_archive', true) = 'on'
        OR (SELECT i.archiving FROM relevo.installation AS i) IS NOT TRUE
    );

-- Rows of history die with their jobs, a thousand at a time; a big table must not wait for a fifth of it.
ALTER TABLE relevo.attempts SET (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
