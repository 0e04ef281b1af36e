import json
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    a_tenant,
    activation,
    an_organisation,
    as_role,
    dump,
    import_text,
    jobs_of,
    noting,
    state_of,
    states,
)

from relevo.db.drivers import NotInTransaction, run
from relevo.db.operation import Call
from relevo.db.statements import parse_statements
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import ActivationBlocked, CycleNotDraft, SnapshotTooOld
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import CycleState, Dispatch
from relevo_apps.evaluations.model.findings import FindingKind

pytestmark = pytest.mark.core

STATEMENTS = [
    "forbid_nested_loops",
    "lock_cycle",
    "find_problems",
    "activate_cycle",
    "activate_evaluations",
    "find_undelivered",
    "insert_notifications",
    "insert_cycle_event",
    "restore_planning",
]

PARTICIPANT_BY_HAND = (
    "INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)"
    " SELECT tenant_id, %(cycle)s, id, 'by hand' FROM evaluations.people"
    " WHERE external_id = '1'"
)
EVALUATION_BY_HAND = (
    "INSERT INTO evaluations.evaluations"
    " (tenant_id, cycle_id, participant_id, evaluator_id, relation)"
    " SELECT p.tenant_id, %(cycle)s, p.id, e.id, 'peer'"
    " FROM evaluations.people AS p, evaluations.people AS e"
    " WHERE p.external_id = '4' AND e.external_id = '1'"
)


def test_an_activation_moves_the_cycle_and_every_evaluation_and_notifies_each_evaluator_once(
    worker, hr_employees
):
    run(worker, service.import_people(TENANT, read_people(hr_employees)))
    cycle = a_draft(worker)

    done = run(worker, activation(cycle))

    assert (done.cycle.state, done.cycle.activated_by) == (CycleState.ACTIVE, ACTOR)
    assert (done.evaluations, done.evaluators, done.notifications) == (319, 107, 107)
    assert (done.created, done.revived, done.already_there) == (107, 0, 0)
    assert states(worker, cycle) == {"active": 319}
    assert len({evaluator for evaluator, *_ in jobs_of(worker, cycle)}) == 107
    assert [finding.kind for finding in done.warnings] == [FindingKind.WITHOUT_MANAGER]


def test_notifications_are_queued_as_the_dispatch_says_and_wait_for_the_hold(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["4"])
    dispatch = Dispatch(
        queue="letters", max_attempts=3, priority=2, hold=timedelta(minutes=7), headers='{"a": 1}'
    )

    done = run(worker, activation(cycle, dispatch=dispatch))

    rows = worker.execute(
        "SELECT DISTINCT queue, kind, max_attempts, priority, actor, headers::text, tenant_id,"
        " available_at - now(), state FROM relevo.jobs"
    ).fetchall()
    assert rows == [
        (
            "letters", "cycle.dispatched", 3, 2, ACTOR, '{"a": 1}', TENANT,
            timedelta(minutes=7), "available",
        )
    ]  # fmt: skip
    assert done.cycle.hold_until - done.cycle.activated_at == timedelta(minutes=7)


def test_rolling_back_leaves_the_draft_and_no_notification(committer):
    import_text(committer, SMALL)
    cycle = a_draft(committer)
    committer.commit()

    run(committer, activation(cycle))
    committer.rollback()

    assert state_of(committer, cycle) == "draft"
    assert states(committer, cycle) == {"draft": 10}
    assert jobs_of(committer, cycle) == []


def test_a_savepoint_takes_an_activation_back_alone(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    with worker.transaction():
        run(worker, activation(cycle))
        raise psycopg.Rollback

    assert state_of(worker, cycle) == "draft"
    assert jobs_of(worker, cycle) == []


def test_a_second_activation_is_refused_with_the_present_state_and_changes_nothing(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    run(worker, activation(cycle))
    before = dump(worker)

    with pytest.raises(CycleNotDraft, match="'2025' is active") as refused:
        run(worker, activation(cycle))

    assert refused.value.state == "active"
    assert dump(worker) == before


def test_an_active_cycle_takes_no_participant_and_no_evaluation(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["4"])
    run(worker, activation(cycle))

    for change in (
        service.add_participants(TENANT, cycle.id, ["1"], actor=ACTOR),
        service.add_participants(TENANT, cycle.id, None, actor=ACTOR),
        service.remove_participants(TENANT, cycle.id, ["4"], actor=ACTOR),
        service.generate_evaluations(TENANT, cycle.id, actor=ACTOR),
    ):
        with pytest.raises(CycleNotDraft):
            run(worker, change)
    assert states(worker, cycle) == {"active": 2}


@pytest.mark.parametrize("statement", [PARTICIPANT_BY_HAND, EVALUATION_BY_HAND])
def test_sql_by_hand_adds_nothing_to_an_active_cycle(worker, statement):
    """F-114. Mechanism: the trigger `require_draft`."""
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["4"])
    run(worker, activation(cycle))

    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match="'2025' is active, and only a draft"
    ):
        worker.execute(statement, {"cycle": cycle.id})


def test_findings_that_block_refuse_before_anything_is_written(worker):
    import_text(
        worker,
        "id,name,email,manager,status\n1,Ana,,,active\n2,Beto,beto@example.com,1,active\n"
        "3,Cora,cora@example.com,2,active\n4,Dan,dan@example.com,,active\n",
    )
    cycle = a_draft(worker)
    import_text(worker, "id,name,status\n3,Cora,left\n")
    before = dump(worker)

    with pytest.raises(ActivationBlocked) as refused:
        run(worker, activation(cycle))

    found = [(finding.kind, finding.external_id) for finding in refused.value.findings]
    assert found == [
        (FindingKind.EVALUATOR_WITHOUT_EMAIL, "1"),
        (FindingKind.WITHOUT_MANAGER, "1"),
        (FindingKind.EVALUATOR_INACTIVE, "3"),
        (FindingKind.PARTICIPANT_INACTIVE, "3"),
        (FindingKind.WITHOUT_MANAGER, "4"),
    ]
    assert "findings that block it: 2, the first one: Ana is asked" in str(refused.value)
    assert dump(worker) == before


@pytest.mark.parametrize(
    ("people", "generated", "kind"),
    [
        ([], True, FindingKind.NO_PARTICIPANTS),
        (["1", "2"], False, FindingKind.NO_EVALUATIONS),
    ],
)
def test_an_empty_cycle_is_not_activated(worker, people, generated, kind):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=people, generated=generated)

    with pytest.raises(ActivationBlocked) as refused:
        run(worker, activation(cycle))

    assert [finding.kind for finding in refused.value.findings] == [kind]


def test_a_participant_whom_nobody_evaluates_blocks(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["1", "4"])
    run(worker, service.add_participants(TENANT, cycle.id, ["3"], actor=ACTOR))

    with pytest.raises(ActivationBlocked) as refused:
        run(worker, activation(cycle))

    assert [(one.kind, one.external_id) for one in refused.value.findings if one.is_blocking] == [
        (FindingKind.PARTICIPANT_WITHOUT_EVALUATION, "3")
    ]


def test_shared_addresses_and_changed_managers_are_warnings(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["4"])
    import_text(worker, SMALL.replace("dan@example.com,2", "dan@example.com,3"))
    worker.execute(
        "UPDATE evaluations.people SET email = 'Dan@Example.com' WHERE external_id = '2'"
    )

    done = run(worker, activation(cycle))

    assert {(one.kind, one.external_id, one.detail) for one in done.warnings} == {
        (FindingKind.SHARED_EMAIL, "2", "Dan@Example.com"),
        (FindingKind.SHARED_EMAIL, "4", "dan@example.com"),
        (FindingKind.MANAGER_CHANGED, "4", "Bruno Díaz"),
    }


def test_an_activation_takes_as_many_statements_for_2_000_people_as_for_10(worker):
    for size in (10, 2_000):
        an_organisation(worker, size)
        cycle = a_draft(worker)
        names: list[str] = []

        done = run(worker, noting(activation(cycle), names))

        assert (names, done.evaluators) == (STATEMENTS, size)
        worker.rollback()


def test_every_row_of_an_activation_comes_from_one_transaction(committer):
    import_text(committer, SMALL)
    cycle = a_draft(committer)
    committer.commit()

    run(committer, activation(cycle))

    written = committer.execute(
        "SELECT DISTINCT xmin::text FROM ("
        " SELECT xmin FROM evaluations.cycles UNION ALL SELECT xmin FROM evaluations.evaluations"
        " UNION ALL SELECT xmin FROM relevo.jobs) AS rows"
    ).fetchall()
    assert len(written) == 1


def test_activating_wakes_the_queue_inside_the_transaction(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    woken = []
    ping = parse_statements("-- name: ping\nSELECT pg_notify('relevo_test', %(queue)s::text)")

    def wake(queue):
        woken.append(queue)
        yield Call(ping["ping"], {"queue": queue})

    run(worker, activation(cycle, wake=wake))
    with pytest.raises(CycleNotDraft):
        run(worker, activation(cycle, wake=wake))

    assert woken == ["mail"]


def test_an_activation_refuses_a_connection_that_commits_by_itself(committer):
    import_text(committer, SMALL)
    cycle = a_draft(committer)
    committer.commit()
    committer.autocommit = True

    for operation in (
        activation(cycle),
        service.preflight(TENANT, cycle.id, actor=ACTOR),
        service.recall(TENANT, cycle.id, actor=ACTOR),
    ):
        with pytest.raises(NotInTransaction):
            run(committer, operation)
    assert state_of(committer, cycle) == "draft"


@pytest.mark.parametrize("level", ["REPEATABLE_READ", "SERIALIZABLE"])
def test_a_snapshot_from_before_the_lock_is_refused(committer, level):
    import_text(committer, SMALL)
    cycle = a_draft(committer)
    committer.commit()
    committer.isolation_level = psycopg.IsolationLevel[level]

    with pytest.raises(SnapshotTooOld, match=level.replace("_", " ")):
        run(committer, activation(cycle))


def test_a_refused_activation_gives_the_planner_settings_back(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=[])

    with pytest.raises(ActivationBlocked):
        run(worker, activation(cycle))

    assert worker.execute("SHOW enable_nestloop").fetchone() == ("on",)


def test_activations_and_their_refusals_are_recorded(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    run(worker, activation(cycle))

    with pytest.raises(CycleNotDraft) as refused:
        run(worker, activation(cycle, actor="beto"))
    run(worker, service.record_refusal(TENANT, cycle.id, refused.value, actor="beto"))

    events = worker.execute(
        "SELECT what, actor, details::text FROM evaluations.cycle_events ORDER BY id DESC LIMIT 2"
    ).fetchall()
    assert [event[:2] for event in events] == [("activation_refused", "beto"), ("activated", ACTOR)]
    assert json.loads(events[0][2])["error"] == "CycleNotDraft"
    assert json.loads(events[1][2]) == {"evaluations": 10, "evaluators": 4, "notifications": 4}


def test_a_person_who_was_notified_by_other_code_is_not_notified_again(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["4"])
    worker.execute(
        "INSERT INTO relevo.jobs (tenant_id, kind, aggregate_id, payload)"
        " SELECT tenant_id, 'cycle.dispatched', %s::text,"
        " jsonb_build_object('evaluator_id', id, 'note', 'by hand') FROM evaluations.people"
        " WHERE external_id = '2'",
        (cycle.id,),
    )

    done = run(worker, activation(cycle))

    assert (done.created, done.already_there, done.evaluators) == (1, 1, 2)
    assert len(jobs_of(worker, cycle)) == 2


def test_a_tenant_cannot_activate_the_cycle_of_another(database):
    with as_role(database) as owner:
        mine, other = a_tenant(owner, 7), a_tenant(owner, 8)
        import_text(owner, SMALL, other)
        cycle = a_draft(owner, tenant=other)
    with as_role(database, "relevo_web", mine) as web:
        for tenant in (mine, other):
            with pytest.raises(Exception, match="there is no cycle"):
                run(web, activation(cycle, tenant))

    with as_role(database) as owner:
        assert state_of(owner, cycle) == "draft"


@pytest.mark.parametrize(
    "payload",
    [
        "{}",
        '{"evaluator_id": null}',
        '{"evaluator": "00000000-0000-0000-0000-000000000005"}',
        '{"evaluator_id": 5}',
        '{"evaluator_id": "5"}',
        '{"evaluator_id": 5.0}',
        '{"evaluator_id": " 00000000-0000-0000-0000-000000000005"}',
        '{"evaluator_id": "00000000-0000-0000-0000-000000000005\\n"}',
        '{"evaluator_id": "00000000-0000-0000-0000-00000000000A"}',
        '{"evaluator_id": "{00000000-0000-0000-0000-000000000005}"}',
        '{"evaluator_id": "00000000000000000000000000000005"}',
        '{"evaluator_id": ["00000000-0000-0000-0000-000000000005"]}',
        "[]",
        '"00000000-0000-0000-0000-000000000005"',
        "null",
    ],
)
def test_a_notification_needs_an_evaluator_id_with_one_spelling(worker, payload):
    """F-040. Mechanism: the constraint `jobs_cycle_dispatched`."""
    with pytest.raises(psycopg.errors.CheckViolation, match="jobs_cycle_dispatched"):
        worker.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind, aggregate_id, payload)"
            " VALUES (%s, 'cycle.dispatched', %s, %s)",
            (TENANT, str(uuid4()), payload),
        )


def test_a_notification_needs_its_cycle(worker):
    """F-040. Mechanism: the constraint `jobs_cycle_dispatched`."""
    with pytest.raises(psycopg.errors.CheckViolation, match="jobs_cycle_dispatched"):
        worker.execute(
            "INSERT INTO relevo.jobs (tenant_id, kind, payload)"
            " VALUES (%s, 'cycle.dispatched', jsonb_build_object('evaluator_id', %s::uuid))",
            (TENANT, uuid4()),
        )


def test_a_duplicate_notification_is_impossible_whatever_the_code_does(worker):
    """F-040. Mechanism: the partial unique index `jobs_cycle_dispatched_once`."""
    insert = (
        "INSERT INTO relevo.jobs (tenant_id, kind, aggregate_id, payload)"
        " VALUES (%s, %s, %s, jsonb_build_object('evaluator_id', %s::uuid, 'n', random()))"
    )
    cycle, evaluator = str(uuid4()), uuid4()
    worker.execute(insert, (TENANT, "cycle.dispatched", cycle, evaluator))
    worker.execute(insert, (TENANT, "cycle.dispatched", str(uuid4()), evaluator))
    worker.execute(insert, (TENANT, "cycle.reminded", cycle, evaluator))
    worker.execute(insert, (TENANT, "cycle.reminded", cycle, evaluator))

    with pytest.raises(psycopg.errors.UniqueViolation, match="jobs_cycle_dispatched_once"):
        worker.execute(insert, (TENANT, "cycle.dispatched", cycle, evaluator))
