import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    activation,
    as_role,
    import_text,
    in_thread,
    is_blocked,
    jobs_of,
    noting,
    state_of,
    states,
    until,
)

from relevo import Cancel
from relevo.db.drivers import run
from relevo.engine.jobs.claim import claim
from relevo.engine.jobs.settle import settle
from relevo.model import settlement
from relevo.model.ring import Ring
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import CycleNotActive, RecallRefused
from relevo_apps.evaluations.model.cycles import CycleState, Dispatch

pytestmark = pytest.mark.core


def recall(cycle, actor=ACTOR):
    return service.recall(TENANT, cycle.id, actor=actor)


def an_active_cycle(connection):
    import_text(connection, SMALL)
    cycle = a_draft(connection)
    run(connection, activation(cycle))
    return cycle


FINISH = (
    "UPDATE relevo.jobs SET state = %(outcome)s, outcome = %(outcome)s, live = false,"
    " worker = NULL, attempt = greatest(attempt, 1), finished_at = now(), last_error = %(error)s"
    " WHERE payload ->> 'evaluator_id' = (SELECT id::text FROM evaluations.people"
    " WHERE external_id = %(person)s)"
)
START = (
    "UPDATE relevo.jobs SET state = 'running', worker = 1, attempt = attempt + 1,"
    " started_at = now() WHERE payload ->> 'evaluator_id' ="
    " (SELECT id::text FROM evaluations.people WHERE external_id = %(person)s)"
)


def finish(connection, person, outcome="completed", error=None):
    """Do what the settle of a delivery does."""
    connection.execute(FINISH, {"person": person, "outcome": outcome, "error": error})


def start(connection, person):
    """Do what the claim of a delivery does."""
    connection.execute(START, {"person": person})


def test_a_recall_within_the_hold_takes_everything_back(worker):
    cycle = an_active_cycle(worker)

    taken_back = run(worker, recall(cycle))

    assert taken_back.cycle.state is CycleState.DRAFT
    assert taken_back.cycle.hold_until is None
    assert (taken_back.evaluations, taken_back.cancelled) == (10, 4)
    assert (taken_back.mailed, taken_back.in_flight) == ((), ())
    assert states(worker, cycle) == {"draft": 10}
    assert {state for _, state, *_ in jobs_of(worker, cycle)} == {"cancelled"}


def test_an_activation_after_a_recall_revives_the_same_rows(worker):
    cycle = an_active_cycle(worker)
    rows = [job[0] for job in jobs_of(worker, cycle)]
    run(worker, recall(cycle))

    again = run(worker, activation(cycle, dispatch=Dispatch(queue="letters")))

    assert (again.created, again.revived, again.already_there) == (0, 4, 0)
    assert [job[:3] for job in jobs_of(worker, cycle)] == [(one, "available", 0) for one in rows]
    assert worker.execute("SELECT DISTINCT queue, live FROM relevo.jobs").fetchall() == [
        ("letters", True)
    ]


def test_who_was_mailed_is_told_and_gets_nothing_new(worker):
    cycle = an_active_cycle(worker)
    finish(worker, "2")

    taken_back = run(worker, recall(cycle))
    again = run(worker, activation(cycle))

    assert [one.full_name for one in taken_back.mailed] == ["Bruno Díaz"]
    assert taken_back.mailed[0].at is not None
    assert (again.created, again.revived, again.already_there) == (0, 3, 1)
    assert sorted(job[1] for job in jobs_of(worker, cycle)) == ["available"] * 3 + ["completed"]


def test_what_is_being_sent_is_asked_to_stop_and_told(worker):
    cycle = an_active_cycle(worker)
    start(worker, "3")

    taken_back = run(worker, recall(cycle))

    assert taken_back.cancelled == 3
    assert [one.external_id for one in taken_back.in_flight] == ["3"]
    assert worker.execute(
        "SELECT state, cancel_requested_at IS NOT NULL FROM relevo.jobs WHERE live"
    ).fetchall() == [("running", True)]


def test_an_activation_calls_off_the_stop_of_what_is_still_being_sent(worker):
    cycle = an_active_cycle(worker)
    start(worker, "3")
    run(worker, recall(cycle))

    again = run(worker, activation(cycle))

    assert (again.created, again.revived) == (0, 4)
    assert worker.execute(
        "SELECT state, attempt, cancel_requested_at FROM relevo.jobs WHERE worker IS NOT NULL"
    ).fetchall() == [("running", 1, None)]


def test_a_delivery_that_saw_the_draft_is_made_again_after_the_next_activation(database):
    """Red when its cancel counts: the person would never hear of the active cycle."""
    with as_role(database) as owner:
        cycle = an_active_cycle(owner)
        (session,) = owner.execute(
            "INSERT INTO relevo.workers (name, queues, kinds, concurrency, version, expires_at)"
            " VALUES ('w', '{mail}', '{}', 1, '0', now() + interval '1 minute') RETURNING id"
        ).fetchone()
        (queue,) = owner.execute(
            "UPDATE relevo.jobs SET available_at = now() RETURNING queue"
        ).fetchone()
        (job,) = run(owner, claim(session, queue, ["cycle.dispatched"], 1, Ring()))
        run(owner, recall(cycle))
        run(owner, activation(cycle))

        answer = settlement.settle_answer(None, job, Cancel("the cycle is a draft"), None)
        run(owner, settle(session, {job.id: queue}, [answer]))

        assert owner.execute(
            "SELECT state, available_at > now() FROM relevo.jobs WHERE id = %s", [job.id]
        ).fetchone() == ("available", True)


def test_a_failed_notification_gets_all_its_starts_again_and_keeps_its_count(worker):
    cycle = an_active_cycle(worker)
    finish(worker, "4", "failed", "550 no such mailbox")
    run(worker, recall(cycle))

    again = run(worker, activation(cycle))

    assert again.revived == 4
    assert worker.execute(
        "SELECT attempt, excused, last_error, outcome FROM relevo.jobs WHERE attempt > 0"
    ).fetchall() == [(1, 1, None, None)]


def test_only_people_who_are_still_asked_are_written_to_again(worker):
    cycle = an_active_cycle(worker)
    run(worker, recall(cycle))
    run(worker, service.remove_participants(TENANT, cycle.id, ["2", "4"], actor=ACTOR))
    run(worker, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))

    again = run(worker, activation(cycle))

    assert (again.evaluators, again.revived) == (3, 3)
    assert sorted(job[1] for job in jobs_of(worker, cycle)) == ["available"] * 3 + ["cancelled"]


def test_only_an_active_cycle_is_recalled(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    with pytest.raises(CycleNotActive, match="'2025' is draft"):
        run(worker, recall(cycle))


def test_submitted_answers_are_not_thrown_away(worker):
    cycle = an_active_cycle(worker)
    worker.execute(
        "UPDATE evaluations.evaluations SET state = 'submitted', submitted_at = now()"
        " WHERE relation = 'self'"
    )

    with pytest.raises(RecallRefused, match="already submitted: 4"):
        run(worker, recall(cycle))
    assert state_of(worker, cycle) == "active"


def test_a_recall_takes_as_many_statements_whatever_the_size(worker):
    cycle = an_active_cycle(worker)
    small = a_draft(worker, "small", people=["4"])
    run(worker, activation(small))
    names: list[list[str]] = [[], []]

    for one, noted in zip((cycle, small), names, strict=True):
        run(worker, noting(recall(one), noted))

    assert names[0] == names[1]


def test_a_recall_is_recorded_with_its_figures(worker):
    cycle = an_active_cycle(worker)
    finish(worker, "2")

    run(worker, recall(cycle, actor="beto"))

    row = worker.execute(
        "SELECT what, actor, details FROM evaluations.cycle_events ORDER BY id DESC LIMIT 1"
    ).fetchone()
    assert row == (
        "recalled",
        "beto",
        {"evaluations": 10, "cancelled": 3, "mailed": 1, "in_flight": 0},
    )


def test_a_delivery_that_ends_while_the_recall_waits_keeps_its_end(database):
    """Mechanism: one UPDATE that reads each row again under its lock."""
    with as_role(database) as first, as_role(database) as second, as_role(database) as watcher:
        cycle = an_active_cycle(first)
        start(first, "3")
        first.commit()
        finish(first, "3")

        with in_thread(lambda: run(second, recall(cycle))) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the recall waits")
            first.commit()

        assert [one.external_id for one in answers[0].mailed] == ["3"]
        assert answers[0].cancelled == 3


def test_a_claim_while_the_recall_waits_is_in_flight(database):
    """Mechanism: one UPDATE that reads each row again under its lock."""
    with as_role(database) as first, as_role(database) as second, as_role(database) as watcher:
        cycle = an_active_cycle(first)
        first.commit()
        start(first, "3")

        with in_thread(lambda: run(second, recall(cycle))) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the recall waits")
            first.commit()

        assert [one.external_id for one in answers[0].in_flight] == ["3"]
        assert answers[0].cancelled == 3
