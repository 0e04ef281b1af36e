-- What waits to be run, for those who look from outside; a worker never asks this.

-- name: list_waiting
-- How many jobs of all tenants are due, and how many later, by queue and kind, and how long they wait.
SELECT
    j.queue,
    j.kind,
    count(*) FILTER (WHERE j.available_at <= now()),
    count(*) FILTER (WHERE j.available_at > now()),
    greatest(0, extract(epoch FROM now() - min(j.available_at)))::float8
FROM relevo.jobs AS j
WHERE j.state = 'available'
GROUP BY
    j.queue,
    j.kind
ORDER BY
    j.queue,
    j.kind;
