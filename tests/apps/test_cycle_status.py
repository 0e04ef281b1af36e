import pytest
from cycle_factory import SMALL, TENANT, a_draft, activation, import_text

from relevo.db.drivers import run
from relevo_apps.evaluations import service
from relevo_apps.evaluations.model.cycles import CycleState, EvaluationState

SETTLE = (
    "UPDATE relevo.jobs SET state = %(state)s, live = %(live)s, attempt = %(attempt)s,"
    " excused = %(excused)s, last_error = %(error)s,"
    " outcome = CASE WHEN %(live)s THEN NULL ELSE %(state)s END,"
    " finished_at = CASE WHEN %(live)s THEN NULL ELSE now() END"
    " WHERE payload ->> 'evaluator_id' = (SELECT id::text FROM evaluations.people"
    " WHERE external_id = %(person)s)"
)


def settle(connection, person, state, *, attempt=1, excused=0, error=None):
    values = {"person": person, "state": state, "attempt": attempt, "excused": excused}
    connection.execute(SETTLE, {**values, "error": error, "live": state == "available"})


@pytest.fixture
def cycle(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    run(worker, activation(cycle))
    return cycle


def test_the_status_counts_evaluations_and_notifications_so_that_they_add_up(worker, cycle):
    settle(worker, "1", "completed")
    settle(worker, "2", "failed", attempt=6, error="550 no such mailbox")
    settle(worker, "3", "available", attempt=2, error="451 try again later")

    status = run(worker, service.cycle_status(TENANT, cycle.id))

    counts = status.notifications
    assert status.cycle.state is CycleState.ACTIVE
    assert status.participants == 4
    assert status.evaluations == {
        EvaluationState.DRAFT: 0,
        EvaluationState.ACTIVE: 10,
        EvaluationState.SUBMITTED: 0,
        EvaluationState.CANCELLED: 0,
    }
    assert (counts.total, counts.delivered, counts.failed, counts.pending) == (4, 1, 1, 2)
    assert counts.retried == 2
    assert counts.total == counts.delivered + counts.failed + counts.cancelled + counts.pending


def test_the_status_names_who_is_in_trouble_with_the_last_error(worker, cycle):
    settle(worker, "2", "failed", attempt=6, error="550 no such mailbox")
    settle(worker, "3", "available", attempt=2, error="451 try again later")

    status = run(worker, service.cycle_status(TENANT, cycle.id))

    assert [(one.full_name, one.state, one.starts, one.last_error) for one in status.troubled] == [
        ("Bruno Díaz", "failed", 6, "550 no such mailbox"),
        ("Célia Nóbrega", "available", 2, "451 try again later"),
    ]


def test_starts_that_were_excused_are_no_retries(worker, cycle):
    settle(worker, "1", "completed", attempt=3, excused=2)

    assert run(worker, service.cycle_status(TENANT, cycle.id)).notifications.retried == 0


def test_a_draft_has_no_notifications(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    status = run(worker, service.cycle_status(TENANT, cycle.id))

    assert (status.cycle.state, status.notifications.total) == (CycleState.DRAFT, 0)
    assert status.evaluations[EvaluationState.DRAFT] == 10


def test_notifications_are_listed_by_name_page_by_page(worker, cycle):
    first = run(worker, service.list_notifications(TENANT, cycle.id, limit=3))
    after = (first[-1].sort_key, first[-1].job_id)
    rest = run(worker, service.list_notifications(TENANT, cycle.id, limit=3, after=after))

    assert [one.external_id for one in (*first, *rest)] == ["1", "2", "3", "4"]
