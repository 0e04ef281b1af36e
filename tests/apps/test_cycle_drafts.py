import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    as_role,
    import_text,
    noting,
)

from relevo.db.drivers import NotInTransaction, run
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import CycleExists, CycleNotFound, PeersNotInRules
from relevo_apps.evaluations.importer import read_people
from relevo_apps.evaluations.model.cycles import CycleState, Relation


def asked(connection, cycle):
    """Who is asked about whom, by external id."""
    return set(
        connection.execute(
            "SELECT participant.external_id, evaluator.external_id, evaluation.relation"
            " FROM evaluations.evaluations AS evaluation"
            " JOIN evaluations.people AS participant ON participant.id = evaluation.participant_id"
            " JOIN evaluations.people AS evaluator ON evaluator.id = evaluation.evaluator_id"
            " WHERE evaluation.cycle_id = %s",
            (cycle.id,),
        ).fetchall()
    )


def test_the_real_organisation_gives_319_evaluations_by_107_evaluators(worker, hr_employees):
    run(worker, service.import_people(TENANT, read_people(hr_employees)))
    cycle = a_draft(worker, generated=False)

    generated = run(worker, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))

    assert generated.total == generated.created == 319
    assert generated.totals == {
        Relation.SELF: 107,
        Relation.MANAGER: 106,
        Relation.UPWARD: 106,
        Relation.PEER: 0,
    }
    assert len({evaluator for _, evaluator, _ in asked(worker, cycle)}) == 107


def test_a_new_cycle_is_a_draft_with_its_rules(worker):
    cycle = run(worker, service.create_cycle(TENANT, "2025", actor=ACTOR, rules=[Relation.SELF]))

    assert (cycle.state, cycle.rules, cycle.activated_at) == (
        CycleState.DRAFT,
        (Relation.SELF,),
        None,
    )
    assert run(worker, service.find_cycle(TENANT, "2025")) == cycle


def test_a_name_is_taken_once(worker):
    run(worker, service.create_cycle(TENANT, "2025", actor=ACTOR))

    with pytest.raises(CycleExists, match="'2025' already exists and is draft"):
        run(worker, service.create_cycle(TENANT, "2025", actor=ACTOR))


def test_a_cycle_that_does_not_exist_is_named(worker):
    with pytest.raises(CycleNotFound, match="'2031'"):
        run(worker, service.find_cycle(TENANT, "2031"))
    with pytest.raises(CycleNotFound):
        run(worker, service.add_participants(TENANT, UUID(int=9), ["1"], actor=ACTOR))
    with pytest.raises(CycleNotFound):
        run(worker, service.activate(TENANT, UUID(int=9), actor=ACTOR))


def test_adding_tells_who_is_new_known_unknown_or_gone(worker):
    import_text(worker, "id,name,status\n1,A,active\n2,B,active\n3,C,left\n")
    cycle = a_draft(worker, people=["1"], generated=False)

    added = run(
        worker, service.add_participants(TENANT, cycle.id, ["1", "2", "2", "3", "x"], actor=ACTOR)
    )

    assert (added.added, added.already_there) == (1, 1)
    assert (added.unknown, added.inactive) == (("x",), ("3",))


def test_adding_everybody_adds_who_is_active_and_missing(worker):
    import_text(worker, "id,name,status\n1,A,active\n2,B,active\n3,C,left\n")
    cycle = a_draft(worker, people=["1"], generated=False)

    added = run(worker, service.add_participants(TENANT, cycle.id, None, actor=ACTOR))

    assert (added.added, added.already_there) == (1, 1)


def test_of_20_who_add_one_participant_at_once_one_adds_and_19_find_them_there(database):
    """F-113. Mechanism: the primary key of participants, met by ON CONFLICT DO NOTHING."""
    with as_role(database) as owner:
        import_text(owner, SMALL)
        cycle = a_draft(owner, people=[], generated=False)
    start = threading.Barrier(20)

    def add(_):
        with as_role(database, "relevo_web") as web:
            start.wait(20)
            added = run(web, service.add_participants(TENANT, cycle.id, ["4"], actor=ACTOR))
            web.commit()
            run(web, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))
            return added.added, added.already_there

    with ThreadPoolExecutor(20) as pool:
        answers = sorted(pool.map(add, range(20)))

    assert answers == [(0, 1)] * 19 + [(1, 0)]
    with as_role(database) as owner:
        assert owner.execute("SELECT count(*) FROM evaluations.participants").fetchone() == (1,)
        assert asked(owner, cycle) == {("4", "4", "self"), ("4", "2", "manager")}


def test_rules_ask_themselves_their_managers_and_their_reports(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, people=["2"])

    assert asked(worker, cycle) == {
        ("2", "2", "self"),
        ("2", "1", "manager"),
        ("2", "4", "upward"),
    }


def test_generating_again_changes_nothing(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    again = run(worker, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))

    assert (again.created, again.removed, again.total) == (0, 0, 4 + 3 + 3)


def test_generating_again_follows_a_move_and_keeps_the_peers(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker, rules=tuple(Relation), people=["4"])
    run(worker, service.add_peers(TENANT, cycle.id, [("4", "1")], actor=ACTOR))
    import_text(worker, SMALL.replace("dan@example.com,2", "dan@example.com,3"))

    generated = run(worker, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))

    assert (generated.created, generated.removed) == (1, 1)
    assert asked(worker, cycle) == {
        ("4", "4", "self"),
        ("4", "3", "manager"),
        ("4", "1", "peer"),
    }


def test_reports_who_left_are_not_asked_and_managers_who_left_are(worker):
    import_text(
        worker, "id,name,manager,status\n1,A,,left\n2,B,1,active\n3,C,2,left\n4,D,2,active\n"
    )
    cycle = a_draft(worker, people=["2"])

    assert asked(worker, cycle) == {
        ("2", "2", "self"),
        ("2", "1", "manager"),
        ("2", "4", "upward"),
    }


def test_removing_a_participant_removes_the_evaluations_about_them(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    removed = run(worker, service.remove_participants(TENANT, cycle.id, ["2", "x"], actor=ACTOR))

    assert (removed.participants, removed.evaluations) == (1, 3)
    assert not [one for one in asked(worker, cycle) if one[0] == "2"]
    assert ("1", "2", "upward") in asked(worker, cycle)


def test_peers_are_named_by_id_or_address_and_refused_by_name(worker):
    import_text(worker, SMALL + "5,Eva,eva@example.com,1\n6,Fay,fay@example.com,1\n")
    import_text(worker, "id,name,status\n6,Fay,left\n")
    cycle = a_draft(worker, rules=(Relation.PEER,), people=["1", "2", "3"])
    pairs = [
        ("1", "2"), ("BRUNO@example.com", "3"), ("1", "2"), ("3", "3"), ("5", "1"), ("1", "6"),
        ("1", "x"), ("y@example.com", "1"),
    ]  # fmt: skip

    added = run(worker, service.add_peers(TENANT, cycle.id, pairs, actor=ACTOR))
    again = run(worker, service.add_peers(TENANT, cycle.id, pairs[:2], actor=ACTOR))

    assert (added.added, again.added, again.already_there) == (2, 0, 2)
    assert added.unknown == ("x", "y@example.com")
    assert (added.selves, added.not_participants, added.inactive) == (("3",), ("5",), ("6",))
    assert asked(worker, cycle) == {("1", "2", "peer"), ("2", "3", "peer")}


def test_a_cycle_without_the_rule_takes_no_peers(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    with pytest.raises(PeersNotInRules, match="self, manager, upward"):
        run(worker, service.add_peers(TENANT, cycle.id, [("1", "2")], actor=ACTOR))


def test_generating_takes_as_many_statements_whatever_the_size(worker):
    import_text(worker, SMALL)
    one, everybody = a_draft(worker, "one", people=["1"]), a_draft(worker, "all")
    names: list[list[str]] = [[], []]

    for cycle, noted in zip((one, everybody), names, strict=True):
        run(worker, service.remove_participants(TENANT, cycle.id, ["1"], actor=ACTOR))
        run(worker, service.add_participants(TENANT, cycle.id, ["1"], actor=ACTOR))
        operation = service.generate_evaluations(TENANT, cycle.id, actor=ACTOR)
        run(worker, noting(operation, noted))

    assert names[0] == names[1]


def test_what_was_done_to_a_draft_is_recorded(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    run(worker, service.remove_participants(TENANT, cycle.id, ["4"], actor="beto"))

    assert worker.execute(
        "SELECT what, actor FROM evaluations.cycle_events WHERE cycle_id = %s ORDER BY id",
        (cycle.id,),
    ).fetchall() == [
        ("created", ACTOR),
        ("participants_added", ACTOR),
        ("evaluations_generated", ACTOR),
        ("participants_removed", "beto"),
    ]


def test_a_draft_is_not_changed_by_a_connection_that_commits_by_itself(committer):
    import_text(committer, SMALL)
    cycle = a_draft(committer, people=[])
    committer.commit()
    committer.autocommit = True

    with pytest.raises(NotInTransaction):
        run(committer, service.add_participants(TENANT, cycle.id, ["1"], actor=ACTOR))
