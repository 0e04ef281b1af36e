-- What holds jobs back: pauses that people set, and limits with the permits that they give out.
-- `queues` keeps the pauses of workers of the version before, and goes after them.

CREATE TABLE relevo.pauses (
    scope text NOT NULL CHECK (scope IN ('queue', 'kind', 'tenant')),
    name text NOT NULL CHECK (name <> ''),
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_until timestamptz,
    reason text NOT NULL CHECK (reason <> ''),
    actor text,
    PRIMARY KEY (scope, name),
    CONSTRAINT pauses_end CHECK (paused_until < '9999-12-30 00:00+00'),
    CONSTRAINT pauses_tenant CHECK (scope <> 'tenant' OR name ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
);

INSERT INTO relevo.pauses (scope, name, paused_until, reason, actor)
SELECT 'queue', q.name, q.paused_until, q.paused_reason, q.paused_by
FROM relevo.queues AS q
WHERE q.paused_until > now();

-- At most so many jobs of a queue, a kind, a tenant (or each tenant, '*') or of each lane of a
-- kind: running at once, started within some seconds, or one after the other.
CREATE TABLE relevo.limits (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text NOT NULL CHECK (scope IN ('queue', 'kind', 'tenant', 'lane')),
    name text NOT NULL CHECK (name <> ''),
    measure text NOT NULL CHECK (measure IN ('running', 'starts', 'order')),
    most integer NOT NULL CHECK (most BETWEEN 0 AND 10000),
    seconds float8,
    set_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text,
    UNIQUE (scope, name, measure),
    CONSTRAINT limits_seconds CHECK ((measure = 'starts') = (seconds IS NOT NULL) AND seconds > 0 AND seconds <= 86400),
    CONSTRAINT limits_order CHECK (measure <> 'order' OR (scope = 'lane' AND most = 1))
);

-- One row for each permit that was ever given out: number 1 to most of a limit, for the tenant
-- and the lane that it is about (zero where it is about neither). It names the job that has it;
-- whether that job still has it is what the job's own row says, so nothing has to be given back.
CREATE TABLE relevo.permits (
    limit_id bigint NOT NULL,
    for_tenant uuid NOT NULL,
    for_lane uuid NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    attempt integer NOT NULL,
    job_tenant uuid NOT NULL,
    job_id bigint NOT NULL,
    taken_at timestamptz NOT NULL,
    PRIMARY KEY (limit_id, for_tenant, for_lane, number)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

-- What a lane is named after; the lane itself is a digest of it and of the kind.
ALTER TABLE relevo.jobs ADD COLUMN lane_key text;

-- The lane of a kind's jobs that share a key: for rows that are inserted by SQL.
CREATE FUNCTION relevo.lane_of(kind text, lane_key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = '' AS $$
    SELECT encode(substring(sha256(convert_to(kind || chr(31) || coalesce(lane_key, ''), 'UTF8')) FROM 1 FOR 16), 'hex')::uuid
$$;

GRANT SELECT ON relevo.pauses, relevo.limits TO relevo_worker, relevo_web;
GRANT INSERT, UPDATE, DELETE ON relevo.pauses, relevo.limits TO relevo_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON relevo.permits TO relevo_worker;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA relevo TO relevo_worker;
