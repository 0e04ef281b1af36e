"""Mutants of the claim: too much is started, or too little, or out of turn."""

from faults.mutants.mutant import Edit, Mutant

CLAIM = "relevo/store/jobs/claim.sql"
LIMITED = "relevo/store/jobs/limited.sql"

# The comment is that of the sweep; the round says the same without it.
COUNTED = """    -- Whatever somebody wrote into a count: one row must not stop the statement.
    attempt = least(j.attempt, 2147483646) + 1,
    worker = %(worker)s::bigint,
    started_at = clock_timestamp(),
"""
CLEARED = "    waiting_key = NULL\n"
PICKED = "WHERE j.ctid = ANY (ARRAY (SELECT picked.place FROM picked CROSS JOIN me))\n"
TAKEN = COUNTED + CLEARED + PICKED
GUARD = """            WHERE (l.scope = 'queue' AND l.name = %(queue)s::text)
               OR (l.scope IN ('kind', 'lane') AND l.name = ANY (%(kinds)s::text[]))
               OR l.scope = 'tenant'
        )
    ) AS open
    CROSS JOIN walk
"""
TURN = """has its turn until it is final.
                        AND CASE
                            WHEN g.measure = 'order' """
SUBSELECT = """WHERE j.ctid IN (
    SELECT n.ctid
    FROM relevo.jobs AS n
    CROSS JOIN me
    WHERE n.queue = j.queue
      AND n.live
      AND n.available_at <= now()
      AND n.worker IS NULL
    ORDER BY n.available_at, n.id
    LIMIT %(limit)s::integer
    FOR UPDATE OF n SKIP LOCKED
)
"""

CLAIMS = (
    Mutant(
        "a start is not counted",
        "I3",
        "plain",
        (Edit(CLAIM, COUNTED, COUNTED.replace("least(j.attempt, 2147483646) + 1", "j.attempt")),),
    ),
    Mutant(
        "a claim locks no row",
        "I4",
        "two_at_once",
        (
            Edit(
                CLAIM,
                "            SELECT j.ctid AS place\n            FROM relevo.jobs AS j\n",
                "            SELECT j.id AS place\n            FROM relevo.jobs AS j\n",
            ),
            Edit(
                CLAIM,
                "            LIMIT %(share)s::integer\n            FOR UPDATE SKIP LOCKED\n",
                "            LIMIT %(share)s::integer\n",
            ),
            Edit(CLAIM, TAKEN, TAKEN.replace("j.ctid = ANY", "j.id = ANY")),
        ),
    ),
    Mutant(
        "a claim by a subselect, which is run again for each row",
        "I3",
        "one_asked",
        (Edit(CLAIM, TAKEN, COUNTED + CLEARED + SUBSELECT),),
    ),
    Mutant(
        "a claim does not ask whether its session has ended",
        "I4",
        "ended_session",
        (Edit(CLAIM, TAKEN, TAKEN.replace(" CROSS JOIN me", "")),),
    ),
    Mutant(
        "the plain claim does not ask for limits",
        "I9",
        "limit_set",
        (Edit(CLAIM, GUARD, f"            WHERE false\n{GUARD[GUARD.index('        )') :]}"),),
    ),
    Mutant(
        "a permit is not compared again under its lock",
        "I9",
        "same_permits",
        (
            Edit(
                LIMITED,
                """          AND p.job_tenant = t.last_tenant
          AND p.job_id = t.last_id
          AND p.attempt = t.last_attempt
          AND p.taken_at = t.last_taken_at
""",
                "",
            ),
        ),
    ),
    Mutant(
        "starts of a moment ago do not count",
        "I9",
        "limited_starts",
        (
            Edit(
                LIMITED,
                "THEN p.taken_at NOT BETWEEN now() - g.seconds * interval '1 second'"
                " AND now() + interval '1 minute'",
                "THEN true",
            ),
        ),
    ),
    Mutant(
        "the turn in an ordered lane is not kept over a retry",
        "I10",
        "ordered_retry",
        (
            Edit(
                LIMITED,
                f"{TURN}THEN j.live\n",
                f"{TURN}THEN j.worker IS NOT NULL\n",
            ),
        ),
    ),
    Mutant(
        "a worker never looks behind the place it has reached",
        "I2",
        "late_commit",
        (
            Edit(
                "relevo/engine/jobs/claim.py",
                "    if not ring.sweep_in(time.monotonic()):\n",
                "    if not ring.has_swept_since(0.0) and not ring.sweep_in(time.monotonic()):\n",
            ),
        ),
    ),
)
