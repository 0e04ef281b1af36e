"""Mutants of sessions, leases and the rescue."""

from faults.mutants.mutant import Edit, Mutant

WORKERS = "relevo/store/workers.sql"
RECOVER = "relevo/store/jobs/recover.sql"

RENEWED = """    expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second'
WHERE id = %(worker)s::bigint
"""
SAME_SESSION = "    WHERE j.worker = f.worker\n"

SESSIONS = (
    Mutant(
        "a session whose lease is over never ends",
        "I2",
        "lost",
        (
            Edit(
                WORKERS,
                "    WHERE w.expires_at <= clock_timestamp()\n",
                "    WHERE w.expires_at <= clock_timestamp() - interval '1 day'\n",
            ),
        ),
    ),
    Mutant(
        "the end of a session is not noted",
        "I2",
        "lost",
        (
            Edit(
                "relevo/db/migrations/0001_foundation.sql",
                "    INSERT INTO relevo.ended_workers (id, name)"
                " VALUES (OLD.id, OLD.name) ON CONFLICT DO NOTHING;\n",
                "",
            ),
        ),
    ),
    Mutant(
        "a lease is counted from the beginning of the transaction",
        "I7",
        "long_transaction",
        (
            Edit(
                WORKERS,
                "    expires_at = clock_timestamp() + %(lease)s::float8 * interval '1 second'\n"
                "WHERE",
                "    expires_at = now() + %(lease)s::float8 * interval '1 second'\nWHERE",
            ),
        ),
    ),
    Mutant(
        "a heartbeat does not say whose it is",
        "I2",
        "beat_beside_silence",
        (
            Edit(
                WORKERS,
                RENEWED,
                RENEWED.replace("id = %(worker)s::bigint", "%(worker)s::bigint > 0"),
            ),
        ),
    ),
    Mutant(
        "a heartbeat does not hear that its session has ended",
        "I7",
        "beat_after_end",
        (
            Edit(
                "relevo/store/workers.py",
                'Call(STATEMENTS["renew_worker"], {"worker": worker, "lease": lease})\n'
                "    return bool(rows)\n",
                'Call(STATEMENTS["renew_worker"], {"worker": worker, "lease": lease})\n'
                "    return rows is not None\n",
            ),
        ),
    ),
    Mutant(
        "the rescue takes the jobs of the living as well",
        "I4",
        "lost",
        (
            Edit(
                RECOVER,
                "      AND j.worker = ANY (%(workers)s::bigint[])\n),\nheld",
                "      AND j.worker IS NOT NULL\n),\nheld",
            ),
        ),
    ),
    Mutant(
        "the rescue does not look again under the lock",
        "I6",
        "answer_beside_rescue",
        (Edit(RECOVER, SAME_SESSION, "    WHERE true\n"),),
    ),
    Mutant(
        "the rescue does not ask whether the starts are spent",
        "I3",
        "lost_again",
        (
            Edit(
                RECOVER,
                "            WHEN j.attempt - j.excused >= j.max_attempts THEN 'failed'\n",
                "",
            ),
        ),
    ),
    Mutant(
        "the rescue leaves a job whose starts are spent",
        "I2",
        "lost_again",
        (
            Edit(
                RECOVER,
                SAME_SESSION,
                f"{SAME_SESSION}      AND j.attempt - j.excused < j.max_attempts\n",
            ),
        ),
    ),
)
