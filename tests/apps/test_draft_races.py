"""People who prepare the same draft at the same time."""

import psycopg
import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    as_role,
    import_text,
    in_thread,
    is_blocked,
    until,
)

from relevo.db.drivers import run
from relevo_apps.evaluations import service
from relevo_apps.evaluations.model.cycles import Relation

ABOUT = """
SELECT p.external_id, count(*)
FROM evaluations.evaluations AS e
JOIN evaluations.people AS p ON p.tenant_id = e.tenant_id AND p.id = e.participant_id
GROUP BY 1
ORDER BY 1
"""


def add(connection, cycle):
    run(connection, service.add_participants(TENANT, cycle.id, ["4"], actor=ACTOR))


def remove(connection, cycle):
    run(connection, service.remove_participants(TENANT, cycle.id, ["2"], actor=ACTOR))


def generate(connection, cycle):
    run(connection, service.generate_evaluations(TENANT, cycle.id, actor=ACTOR))


def name_a_peer(connection, cycle):
    run(connection, service.add_peers(TENANT, cycle.id, [("2", "4")], actor=ACTOR))


@pytest.fixture
def cycle(database):
    with as_role(database) as owner:
        import_text(owner, SMALL)
        return a_draft(owner, people=["1", "2"], rules=tuple(Relation))


@pytest.mark.parametrize(
    ("one", "other"),
    [(remove, generate), (generate, remove), (remove, name_a_peer), (name_a_peer, remove)],
)
def test_a_change_of_a_draft_sees_the_one_before(database, cycle, one, other):
    """Mechanism: `hold_cycle` comes first, so the statement after it has a newer snapshot."""
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        one(first, cycle)
        with in_thread(lambda: other(second, cycle)) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the other waits")
            first.commit()
        assert answers == [None]
        second.commit()
        assert "2" not in dict(first.execute(ABOUT).fetchall())


def test_two_who_add_people_and_generate_do_not_deadlock(database, cycle):
    """Mechanism: every change takes the same lock first; none begins with a weaker one."""
    with (
        as_role(database) as first,
        as_role(database, "relevo_web") as second,
        as_role(database) as watcher,
    ):
        add(first, cycle)
        with in_thread(lambda: [add(second, cycle), generate(second, cycle)]) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the other waits")
            generate(first, cycle)
            first.commit()
        assert answers == [[None, None]]
        second.commit()
        assert set(dict(first.execute(ABOUT).fetchall())) == {"1", "2", "4"}


def test_a_change_above_read_committed_says_that_it_can_be_tried_again(database, cycle):
    with as_role(database) as first, as_role(database, "relevo_web") as second:
        second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        second.execute("SELECT 1 FROM evaluations.cycles")
        remove(first, cycle)
        first.commit()
        with pytest.raises(psycopg.errors.SerializationFailure):
            generate(second, cycle)
