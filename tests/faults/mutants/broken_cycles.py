"""Mutants of cycles: half an activation, a notification too many, or one too few."""

from faults.mutants.mutant import Edit, Mutant

ACTIVATION = "relevo_apps/evaluations/service/activation.py"
DISPATCH = "relevo_apps/evaluations/store/dispatch.sql"

IMPORTED = "from relevo import Operation, RelevoError, requeue_jobs\n"
IMPORTING = Edit(
    ACTIVATION,
    IMPORTED,
    f"{IMPORTED}from relevo import Call\nfrom relevo.db.statements import Statement\n",
)
COMMITTING = '    yield Call(Statement("commit_half", "COMMIT"))\n'
EVALUATIONS = "    evaluations, evaluators = yield from dispatch_rows.activate_evaluations("
NOTIFICATIONS = "    undelivered = yield from dispatch_rows.find_undelivered("
ASKED = "      AND evaluation.state = 'active'\n    GROUP BY evaluation.evaluator_id\n"

CYCLES = (
    Mutant(
        "the index of notifications is not unique",
        "I8",
        "cycle",
        (
            Edit(
                "relevo_apps/evaluations/migrations/0003_index_cycle_dispatched.sql",
                "CREATE UNIQUE INDEX",
                "CREATE INDEX",
            ),
        ),
    ),
    Mutant(
        "an activation in two transactions",
        "I13",
        "cycle",
        (
            IMPORTING,
            Edit(ACTIVATION, EVALUATIONS, f"{COMMITTING}{EVALUATIONS}"),
        ),
    ),
    Mutant(
        "notifications are enqueued after the commit",
        "I13",
        "cycle",
        (
            IMPORTING,
            Edit(ACTIVATION, NOTIFICATIONS, f"{COMMITTING}{NOTIFICATIONS}"),
        ),
    ),
    Mutant(
        "an activation leaves somebody out",
        "I13",
        "cycle",
        (Edit(DISPATCH, ASKED, f"{ASKED}    LIMIT 3\n"),),
    ),
    Mutant(
        "a recall leaves the notifications",
        "I13",
        "cycle",
        (
            Edit(
                "relevo_apps/evaluations/service/recall.py",
                "cancel_jobs(tenant_id, NOTIFICATION_KIND, str(cycle_id), KEEP)",
                'cancel_jobs(tenant_id, NOTIFICATION_KIND, "", KEEP)',
            ),
        ),
    ),
)
