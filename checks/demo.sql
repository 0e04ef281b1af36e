-- Recomputes what `relevo demo --keep` printed from the database that it left.
-- It uses nothing of relevo's program, only its tables: psql "$DSN" -f checks/demo.sql
-- prints one row of JSON. Every figure is counted from rows; the two that no row can hold,
-- how many statements the activation sent and that a second one was refused, are read from
-- the record of what was done to the cycle, which is only ever added to.

WITH cycle AS (
    -- The demonstration's database has one cycle; of several, the one activated last.
    SELECT cycle.tenant_id,
           cycle.id,
           cycle.name,
           cycle.state,
           cycle.activated_at
    FROM evaluations.cycles AS cycle
    WHERE cycle.activated_at IS NOT NULL
    ORDER BY cycle.activated_at DESC
    LIMIT 1
),
people AS (
    SELECT count(*) AS people
    FROM evaluations.people AS person
    JOIN cycle ON cycle.tenant_id = person.tenant_id
    WHERE person.active
),
managers AS (
    SELECT count(DISTINCT edge.manager_id) AS managers
    FROM evaluations.manager_edges AS edge
    JOIN cycle ON cycle.tenant_id = edge.tenant_id
    JOIN evaluations.people AS report
        ON report.tenant_id = edge.tenant_id
       AND report.id = edge.person_id
       AND report.active
    JOIN evaluations.people AS manager
        ON manager.tenant_id = edge.tenant_id
       AND manager.id = edge.manager_id
       AND manager.active
    WHERE edge.ends_on IS NULL
),
evaluation AS (
    SELECT count(*) AS total,
           count(*) FILTER (WHERE evaluation.state = 'active') AS active,
           count(DISTINCT evaluation.evaluator_id) AS evaluators
    FROM evaluations.evaluations AS evaluation
    JOIN cycle
        ON cycle.tenant_id = evaluation.tenant_id
       AND cycle.id = evaluation.cycle_id
),
job AS (
    SELECT job.tenant_id,
           job.id,
           job.state,
           job.attempt - job.excused AS starts,
           job.payload ->> 'evaluator_id' AS evaluator_id,
           -- What the mail server said when it took the mail; each has a number of its own.
           job.result ->> 'accepted' AS accepted,
           job.created_at
    FROM relevo.jobs AS job
    JOIN cycle
        ON cycle.tenant_id = job.tenant_id
       AND cycle.id::text = job.aggregate_id
    WHERE job.kind = 'cycle.dispatched'
),
notification AS (
    SELECT count(*) AS total,
           count(*) FILTER (WHERE job.state = 'completed') AS delivered,
           count(*) FILTER (WHERE job.state = 'failed') AS failed,
           count(*) FILTER (WHERE job.starts > 1) AS retried,
           count(*) FILTER (WHERE job.state IN ('available', 'running')) AS pending,
           count(*) - count(DISTINCT job.evaluator_id) AS duplicates,
           count(job.accepted) AS accepted,
           count(DISTINCT job.accepted) AS distinct_mails,
           -- The jobs were written by the transaction that made the cycle active.
           coalesce(bool_and(job.created_at = cycle.activated_at), false) AS are_of_the_activation
    FROM job
    CROSS JOIN cycle
),
attempt AS (
    SELECT count(*) FILTER (WHERE attempt.outcome = 'retried') AS refused_for_now,
           count(*) FILTER (WHERE attempt.outcome = 'failed') AS refused_for_good
    FROM relevo.attempts AS attempt
    JOIN job
        ON job.tenant_id = attempt.tenant_id
       AND job.id = attempt.job_id
),
event AS (
    SELECT count(*) FILTER (WHERE event.what = 'activated') AS activations,
           count(*) FILTER (WHERE event.what = 'activation_refused') AS refusals,
           max((event.details ->> 'statements')::integer)
               FILTER (WHERE event.what = 'activation_measured') AS statements,
           max((event.details ->> 'evaluations')::integer)
               FILTER (WHERE event.what = 'activated') AS evaluations_said,
           max((event.details ->> 'notifications')::integer)
               FILTER (WHERE event.what = 'activated') AS notifications_said
    FROM evaluations.cycle_events AS event
    JOIN cycle
        ON cycle.tenant_id = event.tenant_id
       AND cycle.id = event.cycle_id
)
SELECT jsonb_build_object(
    'cycle', cycle.name,
    'people', people.people,
    'managers', managers.managers,
    'evaluations', jsonb_build_object('total', evaluation.total, 'active', evaluation.active),
    'notifications', jsonb_build_object(
        'total', notification.total,
        'delivered', notification.delivered,
        'failed', notification.failed,
        'retried', notification.retried,
        'pending', notification.pending
    ),
    'second_activation', CASE
        WHEN event.activations = 1 AND event.refusals > 0 THEN 'refused'
        ELSE 'accepted'
    END,
    'activation_statements', event.statements,
    'one_transaction', event.activations = 1 AND notification.are_of_the_activation,
    'mail', jsonb_build_object(
        'accepted', notification.accepted,
        'distinct', notification.distinct_mails,
        'duplicates', notification.accepted - notification.distinct_mails + notification.duplicates,
        'refused_for_now', attempt.refused_for_now,
        'refused_for_good', attempt.refused_for_good
    ),
    'adds_up', (
        cycle.state = 'active'
        AND evaluation.total = evaluation.active
        AND evaluation.total = event.evaluations_said
        AND notification.total = evaluation.evaluators
        AND notification.total = event.notifications_said
        AND notification.total = notification.delivered + notification.failed
        AND notification.pending = 0
        AND notification.duplicates = 0
        AND notification.delivered = notification.accepted
        AND notification.accepted = notification.distinct_mails
        AND attempt.refused_for_good = notification.failed
        AND event.activations = 1
        AND event.refusals > 0
        AND notification.are_of_the_activation
    )
) AS demo
FROM cycle
CROSS JOIN people
CROSS JOIN managers
CROSS JOIN evaluation
CROSS JOIN notification
CROSS JOIN attempt
CROSS JOIN event;
