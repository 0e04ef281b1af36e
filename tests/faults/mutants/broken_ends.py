"""Mutants of what ends a start or a job: late answers, wrong counts, rows that go too early."""

from faults.mutants.mutant import Edit, Mutant

SETTLE = "relevo/store/jobs/settle.sql"
PRUNE = "relevo/store/jobs/prune.sql"

HISTORY = """history AS (
    INSERT INTO relevo.attempts (
"""
COPY = """copy AS (
    INSERT INTO relevo.jobs (tenant_id, queue, kind, max_attempts, payload)
    SELECT o.tenant_id, o.queue, o.kind, o.max_attempts, o.payload
    FROM settled AS s
    JOIN relevo.jobs AS o ON o.tenant_id = s.tenant_id AND o.id = s.id
    WHERE s.state = 'available'
),
"""
ERASE = """erased AS (
    DELETE FROM relevo.attempts AS a
    USING settled AS s
    WHERE a.tenant_id = s.tenant_id
      AND a.job_id = s.id
),
"""

ENDS = (
    Mutant(
        "a completion does not ask which start it is",
        "I5",
        "late_answer",
        (Edit(SETTLE, "  AND j.attempt = done.attempt\n", ""),),
    ),
    Mutant(
        "a completion does not ask whose session holds the job",
        "I6",
        "after_rescue",
        (Edit(SETTLE, "  AND j.worker = %(worker)s::bigint\nRETURNING", "RETURNING"),),
    ),
    Mutant(
        "an answer is accepted after the rescue",
        "I6",
        "after_rescue",
        (
            Edit(
                SETTLE, "      AND j.worker = %(worker)s::bigint\n    FOR UPDATE", "    FOR UPDATE"
            ),
        ),
    ),
    Mutant(
        "a handler's transaction is committed though its job was lost",
        "I5",
        "lost_handler",
        (Edit("relevo/loops/context.py", "        if not held:\n", "        if held is None:\n"),),
    ),
    Mutant(
        "the key of a delivery changes with the start",
        "I15",
        "delivered_again",
        (
            Edit(
                "relevo/loops/context.py",
                'return f"{self.tenant_id}:{self.kind}:{self.job_id}"',
                'return f"{self.tenant_id}:{self.kind}:{self.job_id}:{self.attempt}"',
            ),
        ),
    ),
    Mutant(
        "a retry does not ask whether the starts are spent",
        "I3",
        "retried",
        (
            Edit(
                SETTLE,
                "            WHEN i.action = 'retried'"
                " AND j.attempt - j.excused >= j.max_attempts THEN 'failed'\n",
                "",
            ),
        ),
    ),
    Mutant(
        "a retry inserts a copy",
        "I1",
        "retried",
        (Edit(SETTLE, HISTORY, f"{COPY}{HISTORY}"),),
    ),
    Mutant(
        "the history of earlier starts is erased",
        "I3",
        "retried",
        (
            Edit(SETTLE, HISTORY, f"{ERASE}{HISTORY}"),
            Edit(
                "relevo/db/migrations/0001_foundation.sql",
                "GRANT INSERT ON relevo.attempts TO relevo_worker, relevo_web;",
                "GRANT INSERT, DELETE ON relevo.attempts TO relevo_worker, relevo_web;",
            ),
        ),
    ),
    Mutant(
        "a job that is handed back is charged",
        "I3",
        "handed_back",
        (Edit(SETTLE, "WHEN h.action IN ('snoozed', 'released')", "WHEN h.action = 'snoozed'"),),
    ),
    Mutant(
        "retention counts from when a job was enqueued",
        "I1",
        "old_job",
        (
            Edit(
                SETTLE,
                "THEN greatest(clock_timestamp() + done.keep",
                "THEN greatest(j.created_at + done.keep",
            ),
        ),
    ),
    Mutant(
        "jobs leave before their retention is over",
        "I1",
        "old_job",
        (
            Edit(
                PRUNE,
                "          AND j.prune_at <= now()\n",
                "          AND j.prune_at <= now() + interval '1 year'\n",
            ),
        ),
    ),
    Mutant(
        "jobs leave the table and do not reach the archive",
        "I1",
        "archived",
        (
            Edit(
                PRUNE,
                "    WHERE p.finished_at >= (SELECT kept.since FROM kept)\n",
                "    WHERE p.finished_at < (SELECT kept.since FROM kept)\n",
            ),
        ),
    ),
)
