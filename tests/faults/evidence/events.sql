-- The evidence that the database keeps: one row for each change, written by triggers in the
-- transaction of the change. Rows are only inserted: no lock is taken beyond that, and no
-- table of the engine is read. Names in braces are filled in by install.py.

CREATE SCHEMA IF NOT EXISTS evidence;

-- One numbering for everything. A change that could only follow another has a higher number:
-- the number is drawn while the row is locked, or before the commit that the other waited for.
CREATE SEQUENCE IF NOT EXISTS evidence.seq;

CREATE TABLE IF NOT EXISTS evidence.events (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at timestamptz NOT NULL DEFAULT transaction_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    snapshot pg_snapshot NOT NULL DEFAULT pg_current_snapshot(),
    program text NOT NULL DEFAULT current_setting('application_name'),
    scope text NOT NULL DEFAULT coalesce(current_setting('relevo.tenant', true), ''),
    op text NOT NULL,
    tenant_id uuid NOT NULL,
    job_id bigint NOT NULL,
    old_tenant_id uuid,
    old_state text,
    old_attempt integer,
    old_worker bigint,
    old_mark bigint,
    mark bigint,
    state text,
    attempt integer,
    worker bigint,
    excused integer,
    losses integer,
    max_attempts integer,
    priority integer,
    queue text,
    kind text,
    lane uuid,
    lane_key text,
    aggregate_id text,
    waiting_key text,
    live_key text,
    key text,
    available_at timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    requeued_at timestamptz,
    prune_at timestamptz,
    ref text,
    evaluator text
);

CREATE TABLE IF NOT EXISTS evidence.effects (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    tenant_id uuid NOT NULL,
    job_id bigint NOT NULL,
    attempt integer NOT NULL,
    session bigint NOT NULL,
    key text NOT NULL
);

CREATE TABLE IF NOT EXISTS evidence.sessions (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    program text NOT NULL DEFAULT current_setting('application_name'),
    op text NOT NULL,
    id bigint NOT NULL,
    name text NOT NULL,
    queues text[] NOT NULL,
    kinds text[] NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE TABLE IF NOT EXISTS evidence.limits (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    op text NOT NULL,
    id bigint NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    measure text NOT NULL,
    most integer NOT NULL,
    seconds float8
);

CREATE TABLE IF NOT EXISTS evidence.archiving (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_on boolean NOT NULL
);

-- What happened to a cycle: one row for each state of the cycle or of its evaluations that a
-- statement left or reached, with the number of rows before and after it.
CREATE TABLE IF NOT EXISTS evidence.cycles (
    seq bigint PRIMARY KEY DEFAULT nextval('evidence.seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    what text NOT NULL,
    tenant_id uuid NOT NULL,
    cycle_id uuid NOT NULL,
    state text NOT NULL,
    gone integer NOT NULL,
    come integer NOT NULL,
    evaluators uuid[] NOT NULL
);

CREATE OR REPLACE FUNCTION evidence.note_job() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO evidence.events (op, {columns}, mark, ref, evaluator)
        VALUES (
            'insert', {new_values}, {new_mark}, NEW.payload ->> 'ref', NEW.payload ->> 'evaluator_id'
        );
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO evidence.events (
            op, {columns}, mark, old_tenant_id, old_state, old_attempt, old_worker, old_mark
        )
        VALUES (
            'update', {new_values}, {new_mark},
            OLD.tenant_id, OLD.state, OLD.attempt, OLD.worker, {old_mark}
        );
    ELSE
        INSERT INTO evidence.events (
            op, {columns}, old_tenant_id, old_state, old_attempt, old_worker, old_mark
        )
        VALUES (
            'delete', {old_values}, OLD.tenant_id, OLD.state, OLD.attempt, OLD.worker, {old_mark}
        );
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER evidence_jobs AFTER INSERT OR UPDATE OR DELETE ON relevo.jobs
    FOR EACH ROW EXECUTE FUNCTION evidence.note_job();

-- What was there before: such a job's story begins where it stands.
INSERT INTO evidence.events (op, {columns}, mark, ref, evaluator)
SELECT 'found', {found_values}, {found_mark}, found.payload ->> 'ref', found.payload ->> 'evaluator_id'
FROM relevo.jobs AS found
WHERE NOT EXISTS (
    SELECT
    FROM evidence.events AS e
    WHERE e.tenant_id = found.tenant_id
      AND e.job_id = found.id
);

CREATE OR REPLACE FUNCTION evidence.note_session() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.sessions (op, id, name, queues, kinds, expires_at)
    SELECT lower(TG_OP), s.id, s.name, s.queues, s.kinds, s.expires_at
    FROM (SELECT (CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END).*) AS s;
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER evidence_sessions
    AFTER INSERT OR DELETE OR UPDATE OF expires_at ON relevo.workers
    FOR EACH ROW EXECUTE FUNCTION evidence.note_session();

INSERT INTO evidence.sessions (op, id, name, queues, kinds, expires_at)
SELECT 'found', w.id, w.name, w.queues, w.kinds, w.expires_at
FROM relevo.workers AS w
WHERE NOT EXISTS (
    SELECT
    FROM evidence.sessions AS s
    WHERE s.id = w.id
);

CREATE OR REPLACE FUNCTION evidence.note_limit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO evidence.limits (op, id, scope, name, measure, most, seconds)
        VALUES ('delete', OLD.id, OLD.scope, OLD.name, OLD.measure, OLD.most, OLD.seconds);
    ELSE
        INSERT INTO evidence.limits (op, id, scope, name, measure, most, seconds)
        VALUES (lower(TG_OP), NEW.id, NEW.scope, NEW.name, NEW.measure, NEW.most, NEW.seconds);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION evidence.note_archiving() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.archiving (is_on)
    VALUES (NEW.archiving);
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION evidence.note_cycle() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.cycles (what, tenant_id, cycle_id, state, gone, come, evaluators)
    SELECT 'cycle', c.tenant_id, c.id, c.state, sum(c.gone), sum(c.come), '{{}}'
    FROM (
        SELECT OLD.tenant_id, OLD.id, OLD.state, 1 AS gone, 0 AS come
        WHERE TG_OP <> 'INSERT'
        UNION ALL
        SELECT NEW.tenant_id, NEW.id, NEW.state, 0, 1
        WHERE TG_OP <> 'DELETE'
    ) AS c
    GROUP BY c.tenant_id, c.id, c.state;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION evidence.note_evaluations_added() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.cycles (what, tenant_id, cycle_id, state, gone, come, evaluators)
    SELECT
        'evaluations', n.tenant_id, n.cycle_id, n.state, 0, count(*),
        array_agg(DISTINCT n.evaluator_id)
    FROM came AS n
    GROUP BY n.tenant_id, n.cycle_id, n.state;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION evidence.note_evaluations_removed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.cycles (what, tenant_id, cycle_id, state, gone, come, evaluators)
    SELECT 'evaluations', o.tenant_id, o.cycle_id, o.state, count(*), 0, '{{}}'
    FROM went AS o
    GROUP BY o.tenant_id, o.cycle_id, o.state;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION evidence.note_evaluations_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO evidence.cycles (what, tenant_id, cycle_id, state, gone, come, evaluators)
    SELECT
        'evaluations', b.tenant_id, b.cycle_id, b.state, sum(b.gone), sum(b.come),
        coalesce(array_agg(DISTINCT b.evaluator_id) FILTER (WHERE b.come > 0), '{{}}')
    FROM (
        SELECT o.tenant_id, o.cycle_id, o.state, o.evaluator_id, 1 AS gone, 0 AS come
        FROM went AS o
        UNION ALL
        SELECT n.tenant_id, n.cycle_id, n.state, n.evaluator_id, 0, 1
        FROM came AS n
    ) AS b
    GROUP BY b.tenant_id, b.cycle_id, b.state;
    RETURN NULL;
END $$;

DO $$
BEGIN
    IF to_regclass('relevo.limits') IS NOT NULL THEN
        CREATE OR REPLACE TRIGGER evidence_limits
            AFTER INSERT OR UPDATE OR DELETE ON relevo.limits
            FOR EACH ROW EXECUTE FUNCTION evidence.note_limit();
        INSERT INTO evidence.limits (op, id, scope, name, measure, most, seconds)
        SELECT 'found', l.id, l.scope, l.name, l.measure, l.most, l.seconds
        FROM relevo.limits AS l
        WHERE NOT EXISTS (SELECT FROM evidence.limits AS e WHERE e.id = l.id);
    END IF;
    IF to_regclass('relevo.archive') IS NOT NULL THEN
        CREATE OR REPLACE TRIGGER evidence_archiving AFTER UPDATE OF archiving ON relevo.installation
            FOR EACH ROW EXECUTE FUNCTION evidence.note_archiving();
        INSERT INTO evidence.archiving (is_on)
        SELECT i.archiving
        FROM relevo.installation AS i
        WHERE NOT EXISTS (SELECT FROM evidence.archiving);
    END IF;
    IF to_regclass('evaluations.evaluations') IS NOT NULL THEN
        CREATE OR REPLACE TRIGGER evidence_cycles
            AFTER INSERT OR UPDATE OF state OR DELETE ON evaluations.cycles
            FOR EACH ROW EXECUTE FUNCTION evidence.note_cycle();
        INSERT INTO evidence.cycles (what, tenant_id, cycle_id, state, gone, come, evaluators)
        SELECT f.what, f.tenant_id, f.cycle_id, f.state, 0, count(*), array_agg(DISTINCT f.evaluator_id)
        FROM (
            SELECT 'cycle' AS what, c.tenant_id, c.id AS cycle_id, c.state, NULL::uuid AS evaluator_id
            FROM evaluations.cycles AS c
            UNION ALL
            SELECT 'evaluations', e.tenant_id, e.cycle_id, e.state, e.evaluator_id
            FROM evaluations.evaluations AS e
        ) AS f
        WHERE NOT EXISTS (SELECT FROM evidence.cycles AS e WHERE e.cycle_id = f.cycle_id)
        GROUP BY f.what, f.tenant_id, f.cycle_id, f.state;
        DROP TRIGGER IF EXISTS evidence_added ON evaluations.evaluations;
        CREATE TRIGGER evidence_added AFTER INSERT ON evaluations.evaluations
            REFERENCING NEW TABLE AS came
            FOR EACH STATEMENT EXECUTE FUNCTION evidence.note_evaluations_added();
        DROP TRIGGER IF EXISTS evidence_removed ON evaluations.evaluations;
        CREATE TRIGGER evidence_removed AFTER DELETE ON evaluations.evaluations
            REFERENCING OLD TABLE AS went
            FOR EACH STATEMENT EXECUTE FUNCTION evidence.note_evaluations_removed();
        DROP TRIGGER IF EXISTS evidence_changed ON evaluations.evaluations;
        CREATE TRIGGER evidence_changed AFTER UPDATE ON evaluations.evaluations
            REFERENCING OLD TABLE AS went NEW TABLE AS came
            FOR EACH STATEMENT EXECUTE FUNCTION evidence.note_evaluations_changed();
    END IF;
END $$;

GRANT USAGE ON SCHEMA evidence TO relevo_worker, relevo_web;
GRANT SELECT ON ALL TABLES IN SCHEMA evidence TO relevo_worker, relevo_web;
GRANT INSERT ON evidence.effects TO relevo_worker, relevo_web;
GRANT USAGE ON SEQUENCE evidence.seq TO relevo_worker, relevo_web;
