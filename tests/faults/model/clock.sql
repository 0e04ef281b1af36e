-- The test's own schema: time goes on by moving what the engine wrote into the past, and an
-- example ends by removing all that it left. Only the owner may call these.
CREATE SCHEMA model;

CREATE FUNCTION model.advance(hours integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    lapse interval := hours * interval '1 hour';
BEGIN
    UPDATE relevo.jobs
    SET available_at = available_at - lapse,
        created_at = created_at - lapse,
        started_at = started_at - lapse,
        finished_at = finished_at - lapse,
        key_expires_at = key_expires_at - lapse,
        cancel_requested_at = cancel_requested_at - lapse,
        requeued_at = requeued_at - lapse,
        prune_at = prune_at - lapse;
    UPDATE relevo.attempts
    SET started_at = started_at - lapse,
        finished_at = finished_at - lapse,
        retry_at = retry_at - lapse;
    UPDATE relevo.workers
    SET started_at = started_at - lapse,
        heartbeat_at = heartbeat_at - lapse,
        expires_at = expires_at - lapse;
    UPDATE relevo.ended_workers SET ended_at = ended_at - lapse;
    UPDATE relevo.pauses
    SET paused_at = paused_at - lapse,
        paused_until = paused_until - lapse;
    UPDATE relevo.permits SET taken_at = taken_at - lapse;
END $$;

-- As after a restore: the session's row is gone, and nobody noted it.
CREATE FUNCTION model.lose_session(gone bigint) RETURNS void LANGUAGE sql
    SET session_replication_role = 'replica' AS $$
    DELETE FROM relevo.workers WHERE id = gone
$$;

CREATE FUNCTION model.reset() RETURNS void LANGUAGE sql
    SET session_replication_role = 'replica' AS $$
    DELETE FROM relevo.attempts;
    DELETE FROM relevo.jobs;
    DELETE FROM relevo.workers;
    DELETE FROM relevo.ended_workers;
    DELETE FROM relevo.pauses;
    DELETE FROM relevo.permits;
    DELETE FROM relevo.limits
$$;
