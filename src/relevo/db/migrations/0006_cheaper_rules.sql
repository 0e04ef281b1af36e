-- The rules of a row of jobs, as they were, in a form that costs less.
-- A CHECK is read from its catalogue text again by every statement that writes to its table, and
-- the sixteen of 0001 were a third of what one enqueue cost the server. A domain's rules are read
-- once a session. So the table has one CHECK now, which hands the columns to a domain.
-- Whoever changes a rule makes a new domain and a new CHECK: ALTER DOMAIN does not look at the rows.

-- What the rules are about. The columns of fixed length come first: they are the quick ones.
CREATE TYPE relevo.job_facts AS (
    live boolean,
    priority smallint,
    attempt integer,
    excused integer,
    losses integer,
    max_attempts integer,
    available_at timestamptz,
    state text,
    queue text,
    kind text,
    outcome text,
    finished_at timestamptz,
    worker bigint,
    waiting_key text,
    live_key text,
    key text,
    key_expires_at timestamptz
);

CREATE DOMAIN relevo.sound_job AS relevo.job_facts
    CONSTRAINT jobs_excused CHECK ((VALUE).excused BETWEEN 0 AND (VALUE).attempt)
    CONSTRAINT jobs_losses CHECK ((VALUE).losses BETWEEN 0 AND (VALUE).attempt)
    CONSTRAINT jobs_max_attempts CHECK ((VALUE).max_attempts BETWEEN 1 AND 1000000)
    CONSTRAINT jobs_priority CHECK ((VALUE).priority BETWEEN 0 AND 3)
    CONSTRAINT jobs_live_state CHECK (
        CASE WHEN (VALUE).live
            THEN (VALUE).state IN ('available', 'running')
            ELSE (VALUE).state IN ('completed', 'failed', 'cancelled')
        END
    )
    CONSTRAINT jobs_final_outcome CHECK (
        (VALUE).live = ((VALUE).outcome IS NULL)
        AND ((VALUE).live OR (VALUE).outcome = (VALUE).state)
    )
    CONSTRAINT jobs_finished_at CHECK ((VALUE).live = ((VALUE).finished_at IS NULL))
    CONSTRAINT jobs_held_by_worker CHECK (((VALUE).state = 'running') = ((VALUE).worker IS NOT NULL))
    CONSTRAINT jobs_one_key CHECK (num_nonnulls((VALUE).waiting_key, (VALUE).live_key, (VALUE).key) <= 1)
    CONSTRAINT jobs_key_expiry CHECK ((VALUE).key_expires_at IS NULL OR (VALUE).key IS NOT NULL)
    -- A date that clients cannot read (infinity, the years BC) would stop every claim that met it.
    CONSTRAINT jobs_due_date CHECK (
        (VALUE).available_at >= '0001-01-03 00:00+00'
        AND (VALUE).available_at < '9999-12-30 00:00+00'
    )
    -- The length stands beside the pattern: {0,62} in it costs ten times as much, in every row.
    CONSTRAINT jobs_queue CHECK (length((VALUE).queue) <= 63 AND (VALUE).queue ~ '^[a-z0-9][a-z0-9_.-]*$')
    CONSTRAINT jobs_kind CHECK (length((VALUE).kind) <= 127 AND (VALUE).kind ~ '^[a-z0-9][a-z0-9_.-]*$');

-- Every row that stands has passed the same rules; 0007 looks once more.
ALTER TABLE relevo.jobs
    ADD CONSTRAINT jobs_sound CHECK (
        ROW(
            live,
            priority,
            attempt,
            excused,
            losses,
            max_attempts,
            available_at,
            state,
            queue,
            kind,
            outcome,
            finished_at,
            worker,
            waiting_key,
            live_key,
            key,
            key_expires_at
        )::relevo.job_facts::relevo.sound_job IS DISTINCT FROM NULL
    ) NOT VALID,
    DROP CONSTRAINT jobs_attempt_check,
    DROP CONSTRAINT jobs_check,
    DROP CONSTRAINT jobs_check1,
    DROP CONSTRAINT jobs_max_attempts_check,
    DROP CONSTRAINT jobs_priority_check,
    DROP CONSTRAINT jobs_state_check,
    DROP CONSTRAINT jobs_outcome_check,
    DROP CONSTRAINT jobs_queue_check,
    DROP CONSTRAINT jobs_kind_check,
    DROP CONSTRAINT jobs_live_state,
    DROP CONSTRAINT jobs_final_outcome,
    DROP CONSTRAINT jobs_finished_at,
    DROP CONSTRAINT jobs_held_by_worker,
    DROP CONSTRAINT jobs_one_key,
    DROP CONSTRAINT jobs_key_expiry,
    DROP CONSTRAINT jobs_due_date;
