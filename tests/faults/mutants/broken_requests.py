"""Mutants of what callers and operators ask for: keys, tenants, cancels, requeues."""

from faults.mutants.mutant import Edit, Mutant

APP = "relevo/app.py"
AGAIN = "relevo/store/jobs/again.sql"
ENQUEUE = "relevo/store/jobs/enqueue.sql"

GUARDED = """    SET state = CASE j.state WHEN 'available' THEN 'cancelled' ELSE j.state END,
        live = j.state <> 'available',
        outcome = CASE j.state WHEN 'available' THEN 'cancelled' END,
        finished_at = CASE j.state WHEN 'available' THEN clock_timestamp() END,
"""
UNGUARDED = """    SET state = 'cancelled',
        live = false,
        outcome = 'cancelled',
        worker = NULL,
        finished_at = clock_timestamp(),
"""
LOCKED = "      AND j.live\n    ORDER BY j.id\n    FOR NO KEY UPDATE\n"
ASKED_TO_STOP = "      AND j.live\n    RETURNING j.state\n"

REQUESTS = (
    Mutant(
        "the index of live keys is not unique",
        "I8",
        "same_key",
        (
            Edit(
                "relevo/db/migrations/0001_foundation.sql",
                "CREATE UNIQUE INDEX jobs_live_key",
                "CREATE INDEX jobs_live_key",
            ),
        ),
    ),
    Mutant(
        "a column that may be null belongs to a unique key",
        "I8",
        "same_key",
        (
            Edit(
                "relevo/db/migrations/0001_foundation.sql",
                "jobs_key ON relevo.jobs (tenant_id, kind, key)",
                "jobs_key ON relevo.jobs (tenant_id, kind, key, aggregate_id)",
            ),
        ),
    ),
    Mutant(
        "a job with a key is enqueued without it",
        "I8",
        "same_key",
        (
            Edit(
                "relevo/store/jobs/enqueue.py",
                "job.key if job.key_mode is mode else None for mode",
                "None for mode",
            ),
        ),
    ),
    Mutant(
        "a job is enqueued on a connection of its own",
        "I1",
        "taken_back",
        (
            Edit(APP, "import msgspec\n", "import msgspec\nimport psycopg\n"),
            Edit(
                APP,
                "            connection, self.enqueuing(*args, **kwargs)\n",
                "            psycopg.connect(connection.info.dsn, autocommit=True),\n"
                "            self.enqueuing(*args, **kwargs),\n",
            ),
        ),
    ),
    Mutant(
        "a NUL in a payload is left to the server to refuse",
        "I1",
        "refused_payload",
        (
            Edit(
                "relevo/model/payload.py",
                '            refuse_nul(written, "$")\n',
                "            pass\n",
            ),
        ),
    ),
    Mutant(
        "a lost wake-up, which is only a hint",
        "",
        "idle_worker",
        (
            Edit(
                ENQUEUE,
                "        THEN pg_notify('relevo', jobs.queue) IS NOT NULL\n",
                "        THEN false\n",
            ),
        ),
    ),
    Mutant(
        "an expired key is taken from all tenants",
        "I14",
        "expired_key",
        (
            Edit(
                ENQUEUE,
                "WHERE tenant_id = %(tenant_id)s::uuid\n  AND kind = %(kind)s::text\n  AND key =",
                "WHERE kind = %(kind)s::text\n  AND key =",
            ),
        ),
    ),
    Mutant(
        "a cancel concerns all tenants",
        "I14",
        "cancelled_elsewhere",
        (
            # The statement asks twice whose jobs they are, and either question alone is enough.
            Edit(
                AGAIN,
                "    WHERE j.tenant_id = %(tenant_id)s::uuid\n      AND j.kind",
                "    WHERE j.kind",
            ),
            Edit(
                AGAIN,
                "    WHERE j.tenant_id = %(tenant_id)s::uuid\n      AND j.id = ANY (ARRAY",
                "    WHERE j.id = ANY (ARRAY",
            ),
        ),
    ),
    Mutant(
        "a cancel does not ask how the job stands",
        "I6",
        "cancelled",
        (
            Edit(AGAIN, GUARDED, UNGUARDED),
            Edit(AGAIN, LOCKED, LOCKED.replace("      AND j.live\n", "")),
            Edit(AGAIN, ASKED_TO_STOP, "    RETURNING j.state\n"),
        ),
    ),
    Mutant(
        "a requeue does not say so on the row",
        "I6",
        "asked_again",
        (Edit(AGAIN, "    requeued_at = clock_timestamp(),\n", ""),),
    ),
    Mutant(
        "a requeue counts the starts of before",
        "I3",
        "asked_again",
        (Edit(AGAIN, "ELSE j.attempt END,\n    losses", "ELSE j.excused END,\n    losses"),),
    ),
    Mutant(
        "a requeue forgets that the job had succeeded",
        "I3",
        "asked_again",
        (Edit(AGAIN, "      AND j.attempt > 0\n", "      AND j.outcome <> 'completed'\n"),),
    ),
)
