-- Evaluation cycles: people and who leads whom, cycles with their participants and
-- evaluations, and the record of what was done to a cycle.
-- Every key starts with the tenant, so no row can point into another tenant.

CREATE SCHEMA evaluations;

CREATE TABLE evaluations.people (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    hire_date date,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    active boolean NOT NULL DEFAULT true,
    external_id text NOT NULL CHECK (external_id <> ''),
    full_name text NOT NULL CHECK (full_name <> ''),
    first_name text NOT NULL DEFAULT '',
    last_name text NOT NULL DEFAULT '',
    -- Folded by the application: the embedded server has no ICU to sort accents with.
    sort_key text COLLATE "C" NOT NULL,
    -- One line without blanks: an address must never open a second header of a mail.
    email text CHECK (email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'),
    email_key text COLLATE "C" GENERATED ALWAYS AS (lower(email COLLATE "C")) STORED,
    language text NOT NULL DEFAULT 'en' CHECK (language IN ('es', 'pt', 'en')),
    job_title text,
    department text,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, external_id)
);

CREATE INDEX people_sorted ON evaluations.people (tenant_id, sort_key, id);
CREATE INDEX people_email ON evaluations.people (tenant_id, email_key) WHERE email_key IS NOT NULL;

-- Who leads whom, and since when. `ends_on` is the first day on which it no longer holds.
CREATE TABLE evaluations.manager_edges (
    tenant_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    person_id uuid NOT NULL,
    manager_id uuid NOT NULL,
    starts_on date NOT NULL,
    ends_on date,
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT manager_edges_not_self CHECK (person_id <> manager_id),
    CONSTRAINT manager_edges_order CHECK (ends_on >= starts_on)
);

CREATE UNIQUE INDEX manager_edges_open ON evaluations.manager_edges (tenant_id, person_id)
    WHERE ends_on IS NULL;
CREATE INDEX manager_edges_reports ON evaluations.manager_edges (tenant_id, manager_id)
    WHERE ends_on IS NULL;

CREATE TABLE evaluations.cycles (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    activated_at timestamptz,
    hold_until timestamptz,
    due_on date,
    name text NOT NULL CHECK (name <> ''),
    state text NOT NULL DEFAULT 'draft'
        CHECK (state IN ('draft', 'active', 'closed', 'cancelled')),
    created_by text NOT NULL,
    activated_by text,
    rules text[] NOT NULL
        CHECK (cardinality(rules) > 0 AND rules <@ ARRAY['self', 'manager', 'upward', 'peer']),
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name),
    CONSTRAINT cycles_activated CHECK (
        CASE state
            WHEN 'draft' THEN num_nonnulls(activated_at, activated_by, hold_until) = 0
            WHEN 'cancelled' THEN true
            ELSE num_nonnulls(activated_at, activated_by, hold_until) = 3
        END
    )
);

CREATE TABLE evaluations.participants (
    tenant_id uuid NOT NULL,
    cycle_id uuid NOT NULL,
    person_id uuid NOT NULL,
    added_at timestamptz NOT NULL DEFAULT now(),
    added_by text NOT NULL,
    PRIMARY KEY (tenant_id, cycle_id, person_id)
);

-- Half of each page stays free, so that the activation of a whole cycle writes its
-- second versions beside the first ones and touches no index.
CREATE TABLE evaluations.evaluations (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    cycle_id uuid NOT NULL,
    participant_id uuid NOT NULL,
    evaluator_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    submitted_at timestamptz,
    relation text NOT NULL CHECK (relation IN ('self', 'manager', 'upward', 'peer')),
    state text NOT NULL DEFAULT 'draft'
        CHECK (state IN ('draft', 'active', 'submitted', 'cancelled')),
    PRIMARY KEY (tenant_id, id),
    CONSTRAINT evaluations_once
        UNIQUE (tenant_id, cycle_id, participant_id, evaluator_id, relation),
    CONSTRAINT evaluations_self CHECK ((relation = 'self') = (participant_id = evaluator_id)),
    CONSTRAINT evaluations_submitted CHECK ((state = 'submitted') = (submitted_at IS NOT NULL))
) WITH (fillfactor = 50);

CREATE INDEX evaluations_evaluator ON evaluations.evaluations (tenant_id, cycle_id, evaluator_id);

-- What was done to a cycle, by whom, and when. Rows are only added.
CREATE TABLE evaluations.cycle_events (
    tenant_id uuid NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    cycle_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    what text NOT NULL CHECK (what ~ '^[a-z][a-z_]{0,62}$'),
    actor text NOT NULL CHECK (actor <> ''),
    details jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant_id, id)
);

CREATE INDEX cycle_events_cycle ON evaluations.cycle_events (tenant_id, cycle_id, id);

-- Tables first, foreign keys after, so that the same script can distribute them by tenant.
ALTER TABLE evaluations.people ADD CONSTRAINT people_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE evaluations.manager_edges ADD CONSTRAINT manager_edges_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE evaluations.cycles ADD CONSTRAINT cycles_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE evaluations.participants ADD CONSTRAINT participants_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE evaluations.evaluations ADD CONSTRAINT evaluations_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);
ALTER TABLE evaluations.cycle_events ADD CONSTRAINT cycle_events_tenant
    FOREIGN KEY (tenant_id) REFERENCES relevo.tenants (id);

ALTER TABLE evaluations.manager_edges ADD CONSTRAINT manager_edges_person
    FOREIGN KEY (tenant_id, person_id) REFERENCES evaluations.people (tenant_id, id);
ALTER TABLE evaluations.manager_edges ADD CONSTRAINT manager_edges_manager
    FOREIGN KEY (tenant_id, manager_id) REFERENCES evaluations.people (tenant_id, id);
ALTER TABLE evaluations.participants ADD CONSTRAINT participants_cycle
    FOREIGN KEY (tenant_id, cycle_id) REFERENCES evaluations.cycles (tenant_id, id);
ALTER TABLE evaluations.participants ADD CONSTRAINT participants_person
    FOREIGN KEY (tenant_id, person_id) REFERENCES evaluations.people (tenant_id, id);
ALTER TABLE evaluations.evaluations ADD CONSTRAINT evaluations_participant
    FOREIGN KEY (tenant_id, cycle_id, participant_id)
    REFERENCES evaluations.participants (tenant_id, cycle_id, person_id);
ALTER TABLE evaluations.evaluations ADD CONSTRAINT evaluations_evaluator
    FOREIGN KEY (tenant_id, evaluator_id) REFERENCES evaluations.people (tenant_id, id);
ALTER TABLE evaluations.cycle_events ADD CONSTRAINT cycle_events_cycle
    FOREIGN KEY (tenant_id, cycle_id) REFERENCES evaluations.cycles (tenant_id, id);

-- A participant or an evaluation enters a draft only. The application's statements lock
-- the cycle themselves; this repeats it, once per statement, for SQL typed by hand. The
-- foreign key alone would wait for the activation and then let the row in.
CREATE FUNCTION evaluations.require_draft() RETURNS trigger
    LANGUAGE plpgsql SET search_path = '' AS $$
DECLARE
    refused text;
BEGIN
    WITH locked AS MATERIALIZED (
        SELECT cycle.name, cycle.state
        FROM evaluations.cycles AS cycle
        WHERE (cycle.tenant_id, cycle.id) IN (SELECT added.tenant_id, added.cycle_id FROM added)
        ORDER BY cycle.tenant_id, cycle.id
        FOR SHARE
    )
    SELECT min(format('cycle %L is %s', locked.name, locked.state)) INTO refused
    FROM locked
    WHERE locked.state <> 'draft';
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION '%, and only a draft takes new rows in %', refused, TG_TABLE_NAME
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'recall the cycle first';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER participants_require_draft AFTER INSERT ON evaluations.participants
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION evaluations.require_draft();
CREATE TRIGGER evaluations_require_draft AFTER INSERT ON evaluations.evaluations
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION evaluations.require_draft();

CREATE FUNCTION evaluations.refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = '' AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are only added', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege', HINT = 'add an event that corrects the earlier one';
END $$;

CREATE TRIGGER cycle_events_only_added BEFORE UPDATE OR DELETE ON evaluations.cycle_events
    FOR EACH STATEMENT EXECUTE FUNCTION evaluations.refuse_change();

-- One notification per evaluator and cycle needs an evaluator id that has one spelling.
-- Without this, a missing, null or padded id is a key of its own beside the right one.
-- NOT VALID holds the lock for a moment only; the next migration reads the old rows.
ALTER TABLE relevo.jobs ADD CONSTRAINT jobs_cycle_dispatched CHECK (
    kind <> 'cycle.dispatched'
    OR (
        aggregate_id IS NOT NULL
        AND coalesce(
            payload ->> 'evaluator_id'
                ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
            false
        )
    )
) NOT VALID;

ALTER TABLE evaluations.people ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.people FORCE ROW LEVEL SECURITY;
ALTER TABLE evaluations.manager_edges ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.manager_edges FORCE ROW LEVEL SECURITY;
ALTER TABLE evaluations.cycles ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.cycles FORCE ROW LEVEL SECURITY;
ALTER TABLE evaluations.participants ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.participants FORCE ROW LEVEL SECURITY;
ALTER TABLE evaluations.evaluations ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.evaluations FORCE ROW LEVEL SECURITY;
ALTER TABLE evaluations.cycle_events ENABLE ROW LEVEL SECURITY;
ALTER TABLE evaluations.cycle_events FORCE ROW LEVEL SECURITY;

CREATE POLICY people_tenant ON evaluations.people
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY people_worker ON evaluations.people
    TO relevo_worker USING (true) WITH CHECK (true);
CREATE POLICY manager_edges_tenant ON evaluations.manager_edges
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY manager_edges_worker ON evaluations.manager_edges
    TO relevo_worker USING (true) WITH CHECK (true);
CREATE POLICY cycles_tenant ON evaluations.cycles
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY cycles_worker ON evaluations.cycles
    TO relevo_worker USING (true) WITH CHECK (true);
CREATE POLICY participants_tenant ON evaluations.participants
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY participants_worker ON evaluations.participants
    TO relevo_worker USING (true) WITH CHECK (true);
CREATE POLICY evaluations_tenant ON evaluations.evaluations
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY evaluations_worker ON evaluations.evaluations
    TO relevo_worker USING (true) WITH CHECK (true);
CREATE POLICY cycle_events_tenant ON evaluations.cycle_events
    USING (tenant_id = (SELECT relevo.current_tenant()))
    WITH CHECK (tenant_id = (SELECT relevo.current_tenant()));
CREATE POLICY cycle_events_worker ON evaluations.cycle_events
    TO relevo_worker USING (true) WITH CHECK (true);

GRANT USAGE ON SCHEMA evaluations TO relevo_worker, relevo_web;
GRANT SELECT ON ALL TABLES IN SCHEMA evaluations TO relevo_web;
GRANT INSERT, UPDATE ON evaluations.people, evaluations.manager_edges, evaluations.cycles,
    evaluations.evaluations TO relevo_web;
GRANT INSERT ON evaluations.participants, evaluations.cycle_events TO relevo_web;
GRANT DELETE ON evaluations.participants, evaluations.evaluations TO relevo_web;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA evaluations TO relevo_web;
-- A delivery reads whom to write to and what about, and changes nothing here.
GRANT SELECT ON evaluations.people, evaluations.cycles, evaluations.evaluations TO relevo_worker;
