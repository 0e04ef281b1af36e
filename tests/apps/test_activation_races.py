"""Activations against each other, against people who still prepare, and against a kill."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from random import Random

import psycopg
import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    activation,
    as_role,
    dump,
    import_text,
    in_thread,
    is_blocked,
    jobs_of,
    noting,
    state_of,
    states,
    until,
)

from relevo.db.drivers import run
from relevo.errors import RelevoError
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import CycleNotDraft
from relevo_apps.evaluations.model.cycles import Dispatch

pytestmark = pytest.mark.core

INTERLEAVINGS = int(os.environ.get("RELEVO_TEST_INTERLEAVINGS", "30"))
BY_HAND = (
    "INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)"
    " SELECT tenant_id, %s, id, 'by hand' FROM evaluations.people WHERE external_id = '4'"
)


def test_of_20_activations_at_once_one_wins_and_19_are_refused(database):
    """F-115. Mechanism: the row lock of `lock_cycle`, under which the state is read."""
    with as_role(database) as owner:
        import_text(owner, SMALL)
        cycle = a_draft(owner)
    start = threading.Barrier(20)

    def activate(number):
        with as_role(database, "relevo_web") as web:
            start.wait(20)
            try:
                return run(web, activation(cycle, actor=f"person {number}")).notifications
            except CycleNotDraft as refused:
                return refused.state

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(activate, range(20)))

    assert sorted(answers, key=str) == [4, *["active"] * 19]
    with as_role(database) as owner:
        assert states(owner, cycle) == {"active": 10}
        assert len({evaluator for evaluator, *_ in jobs_of(owner, cycle)}) == 4
        assert len(jobs_of(owner, cycle)) == 4


def add_by_service(connection, cycle):
    run(connection, service.add_participants(TENANT, cycle.id, ["4"], actor=ACTOR))
    run(connection, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))


def generate(connection, cycle):
    run(connection, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))


def remove(connection, cycle):
    run(connection, service.remove_participants(TENANT, cycle.id, ["2"], actor=ACTOR))


def add_by_hand(connection, cycle):
    connection.execute(BY_HAND, (cycle.id,))


def activate(connection, cycle):
    run(connection, activation(cycle))


@pytest.mark.parametrize(
    ("add", "error"),
    [
        (add_by_service, CycleNotDraft),
        (generate, CycleNotDraft),
        (remove, CycleNotDraft),
        (add_by_hand, psycopg.errors.ObjectNotInPrerequisiteState),
    ],
)
def test_who_waits_for_an_activation_is_refused_when_it_commits(database, add, error):
    """F-114. Mechanism: the lock that each change of a draft takes first; by hand, the trigger."""
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        import_text(first, SMALL)
        cycle = a_draft(first, people=["1", "2"])
        first.commit()
        run(first, activation(cycle))

        with in_thread(lambda: add(second, cycle)) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the adding waits")
            first.commit()

        assert type(answers[0]) is error
        second.rollback()
        assert states(second, cycle) == {"active": 6}


@pytest.mark.parametrize("add", [add_by_service, add_by_hand])
def test_who_meets_an_activation_by_hand_waits_for_it_too(database, add):
    """F-114. Mechanism: FOR SHARE in the trigger; a foreign key would not wait for an UPDATE."""
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        import_text(first, SMALL)
        cycle = a_draft(first, people=["1", "2"])
        first.commit()
        first.execute(
            "UPDATE evaluations.cycles SET state = 'active', activated_at = now(),"
            " hold_until = now(), activated_by = 'by hand'"
        )

        with in_thread(lambda: add(second, cycle)) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the adding waits")
            first.commit()

        assert isinstance(answers[0], CycleNotDraft | psycopg.errors.ObjectNotInPrerequisiteState)


def test_a_participant_who_waits_for_an_activation_enters_when_it_rolls_back(database):
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        import_text(first, SMALL)
        cycle = a_draft(first, people=["1", "2"])
        first.commit()
        run(first, activation(cycle))

        with in_thread(lambda: add_by_service(second, cycle)) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the adding waits")
            first.rollback()

        assert answers == [None]
        assert states(second, cycle) == {"draft": 8}


def test_an_activation_waits_for_who_is_adding_and_takes_them_along(database):
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        import_text(first, SMALL)
        cycle = a_draft(first, people=["1", "2"])
        first.commit()
        add_by_service(first, cycle)

        with in_thread(lambda: activate(second, cycle)) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the activation waits")
            first.commit()

        assert answers == [None]
        assert states(second, cycle) == {"active": 8}


def is_whole(connection, cycle):
    """A draft has no active evaluation and no notification; an active cycle has no draft one."""
    state, found, jobs = (
        state_of(connection, cycle),
        states(connection, cycle),
        jobs_of(connection, cycle),
    )
    if state == "draft":
        return set(found) <= {"draft"} and not jobs
    evaluators = connection.execute(
        "SELECT count(DISTINCT evaluator_id) FROM evaluations.evaluations WHERE cycle_id = %s",
        (cycle.id,),
    ).fetchone()[0]
    participants = connection.execute(
        "SELECT count(*) FROM evaluations.participants AS p WHERE cycle_id = %s AND NOT EXISTS"
        " (SELECT FROM evaluations.evaluations AS e WHERE e.cycle_id = p.cycle_id"
        " AND e.participant_id = p.person_id)",
        (cycle.id,),
    ).fetchone()[0]
    return set(found) == {"active"} and len(jobs) == evaluators and participants == 0


def test_no_interleaving_leaves_a_cycle_with_mixed_states(database):
    """F-114. Mechanism: FOR SHARE against FOR UPDATE on the cycle, and the trigger."""
    random = Random(114)  # noqa: S311 - the same interleavings in every run
    works = [activate, add_by_service, add_by_hand, generate, remove]
    waited = 0
    with as_role(database) as watcher:
        watcher.autocommit = True
        with watcher.transaction():
            import_text(watcher, SMALL)
        for number in range(INTERLEAVINGS):
            with watcher.transaction():
                cycle = a_draft(watcher, f"cycle {number}", people=["1", "2"])
            one, two = activate, random.choice(works)
            if random.random() < 0.5:
                one, two = two, one
            waited += interleave(database, watcher, cycle, (one, two), random)

            assert is_whole(watcher, cycle), (number, one.__name__, two.__name__)
    assert waited > INTERLEAVINGS // 3


def interleave(database, watcher, cycle, works, random):
    """Let the second of two meet an open transaction of the first, which then ends."""
    one, two = works
    with as_role(database) as first, as_role(database, "relevo_web") as second:
        if random.random() < 0.2:
            second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        one(first, cycle)

        def work():
            try:
                two(second, cycle)
            except (RelevoError, psycopg.Error):
                second.rollback()
            else:
                second.commit()
            return "done"

        with in_thread(work) as answers:
            pid = second.info.backend_pid
            until(lambda: answers or is_blocked(watcher, pid), "the other one waits or is done")
            waited = not answers
            if random.random() < 0.7:
                first.commit()
            else:
                first.rollback()
        assert answers == ["done"]
    return waited


class KilledError(Exception):
    """The connection was ended by the test."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_lost_at_any_statement_of_an_activation_leaves_nothing(database, moment):
    """Mechanism: one transaction around all statements of `activate`."""
    with as_role(database) as owner:
        import_text(owner, SMALL)
        cycle = a_draft(owner)
        names: list[str] = []
        run(owner, noting(service.activate(TENANT, cycle.id, actor=ACTOR), names))
        owner.rollback()
        import_text(owner, SMALL)
        cycle = a_draft(owner)
    with as_role(database) as watcher:
        watcher.autocommit = True
        before = dump(watcher)

        for place in range(len(names)):
            victim = as_role(database, "relevo_web")
            operation = killing(activation(cycle), place, moment, victim, watcher)
            with pytest.raises((KilledError, psycopg.OperationalError)):
                run(victim, operation)
            victim.close()

            assert dump(watcher) == before, names[place]


def killing(operation, place, moment, victim, watcher):
    """Run the operation and end its connection before or after one of its statements."""

    def kill():
        # Answers only when the backend is gone, and its transaction with it.
        ended = watcher.execute(
            "SELECT pg_terminate_backend(%s, 20000)", (victim.info.backend_pid,)
        )
        assert ended.fetchone() == (True,)

    call = next(operation)
    for number in range(place + 1):
        if number == place and moment == "before":
            kill()
        rows = yield call
        if number == place:
            kill()
            raise KilledError
        call = operation.send(rows)


def test_an_activation_and_an_import_do_not_wait_for_each_other(database):
    with as_role(database) as first, as_role(database) as second:
        import_text(first, SMALL)
        cycle = a_draft(first)
        first.commit()
        run(first, activation(cycle, dispatch=Dispatch(queue="letters")))

        second.execute("SET LOCAL lock_timeout = '1ms'")
        report = import_text(second, SMALL.replace("Dan Young", "Dan Younger"))

        assert report.updated == 1
