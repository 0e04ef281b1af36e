"""What the tables themselves refuse, whoever writes."""

import psycopg
import pytest
from cycle_factory import (
    SMALL,
    a_draft,
    a_tenant,
    activation,
    as_role,
    import_text,
)
from psycopg import sql

from relevo.db.drivers import run
from relevo_apps.evaluations.store import cycles, dispatch, drafts, people, planning, status

pytestmark = pytest.mark.core

TABLES = {"people", "manager_edges", "cycles", "participants", "evaluations", "cycle_events"}


def test_every_table_has_the_tenant_in_front_of_every_key_and_forces_row_security(connection):
    forced = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'evaluations'::regnamespace"
        " AND relkind = 'r' AND relrowsecurity AND relforcerowsecurity"
    ).fetchall()
    tenants = connection.execute(
        "SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f'"
        " AND connamespace = 'evaluations'::regnamespace"
        " AND confrelid = 'relevo.tenants'::regclass"
    ).fetchall()
    keys = connection.execute(
        "SELECT index.indexrelid::regclass::text, attname FROM pg_index AS index"
        " JOIN pg_class AS c ON c.oid = index.indrelid"
        " AND c.relnamespace = 'evaluations'::regnamespace"
        " JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = index.indkey[0]"
    ).fetchall()
    links = connection.execute(
        "SELECT conname FROM pg_constraint JOIN pg_attribute AS a ON a.attrelid = conrelid"
        " AND a.attnum = conkey[1] WHERE contype = 'f' AND attname <> 'tenant_id'"
        " AND connamespace = 'evaluations'::regnamespace"
    ).fetchall()

    assert {row[0] for row in forced} == TABLES
    assert {row[0].removeprefix("evaluations.") for row in tenants} == TABLES
    assert {column for _, column in keys} == {"tenant_id"}
    assert links == []


def test_the_index_and_the_constraint_on_the_jobs_are_in_force(connection):
    assert connection.execute(
        "SELECT convalidated FROM pg_constraint WHERE conname = 'jobs_cycle_dispatched'"
    ).fetchall() == [(True,)]
    assert connection.execute(
        "SELECT indisvalid, indisunique FROM pg_index"
        " WHERE indexrelid = 'relevo.jobs_cycle_dispatched_once'::regclass"
    ).fetchall() == [(True, True)]


@pytest.mark.parametrize("store", [cycles, dispatch, drafts, people, planning, status])
def test_every_statement_is_prepared_by_the_server(connection, store):
    for statement in store.SQL.values():
        connection.execute(f"PREPARE s AS {statement.numbered}".encode())
        connection.execute("DEALLOCATE s")


LINKS = {
    "manager edge": "INSERT INTO evaluations.manager_edges"
    " (tenant_id, person_id, manager_id, starts_on) VALUES (%(mine)s, %(me)s, %(them)s, now())",
    "participant": "INSERT INTO evaluations.participants"
    " (tenant_id, cycle_id, person_id, added_by) VALUES (%(mine)s, %(cycle)s, %(them)s, 'x')",
    "participant's cycle": "INSERT INTO evaluations.participants"
    " (tenant_id, cycle_id, person_id, added_by) VALUES (%(mine)s, %(theirs)s, %(me)s, 'x')",
    "evaluator": "INSERT INTO evaluations.evaluations"
    " (tenant_id, cycle_id, participant_id, evaluator_id, relation)"
    " VALUES (%(mine)s, %(cycle)s, %(me)s, %(them)s, 'peer')",
    "event": "INSERT INTO evaluations.cycle_events (tenant_id, cycle_id, what, actor)"
    " VALUES (%(mine)s, %(theirs)s, 'seen', 'x')",
}


@pytest.mark.parametrize("link", LINKS)
def test_no_row_points_into_another_tenant(connection, link):
    """Mechanism: composite foreign keys that begin with the tenant."""
    values = {}
    for name, number in (("mine", 7), ("other", 8)):
        tenant = values[name] = a_tenant(connection, number)
        import_text(connection, SMALL, tenant)
        cycle = a_draft(connection, tenant=tenant, people=["1"])
        values["cycle" if name == "mine" else "theirs"] = cycle.id
        row = connection.execute(
            "SELECT id FROM evaluations.people WHERE tenant_id = %s AND external_id = '1'",
            (tenant,),
        ).fetchone()
        values["me" if name == "mine" else "them"] = row[0]

    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute(LINKS[link], values)


def test_the_web_sees_its_own_tenant_and_the_worker_sees_all(database):
    with as_role(database) as owner:
        tenants = [a_tenant(owner, 7), a_tenant(owner, 8)]
        for tenant in tenants:
            import_text(owner, SMALL, tenant)
            run(owner, activation(a_draft(owner, tenant=tenant), tenant))

    for table in TABLES:
        name = sql.Identifier("evaluations", table)
        query = sql.SQL("SELECT count(DISTINCT tenant_id) FROM {}").format(name)
        with as_role(database, "relevo_web", tenants[0]) as web:
            assert web.execute(query).fetchone() == (1,), table
        if table in {"people", "cycles", "evaluations"}:
            with as_role(database, "relevo_worker") as delivery:
                assert delivery.execute(query).fetchone() == (2,), table


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE evaluations.cycles SET state = 'cancelled'",
        "UPDATE evaluations.people SET email = 'x@example.com'",
        "UPDATE evaluations.evaluations SET state = 'cancelled'",
        "SELECT count(*) FROM evaluations.cycle_events",
    ],
)
def test_a_delivery_reads_and_changes_nothing_here(database, statement):
    with (
        as_role(database, "relevo_worker") as delivery,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        delivery.execute(statement)


@pytest.mark.parametrize("statement", ["UPDATE {} SET actor = 'nobody'", "DELETE FROM {}"])
def test_what_was_recorded_stays_as_it_was(worker, statement):
    import_text(worker, SMALL)
    a_draft(worker)

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        worker.execute(statement.format("evaluations.cycle_events"))


REFUSED = {
    "second open manager": (
        (
            "INSERT INTO evaluations.manager_edges (tenant_id, person_id, manager_id, starts_on)"
            " SELECT tenant_id, person_id, manager_id, now() FROM evaluations.manager_edges LIMIT 1"
        ),
        psycopg.errors.UniqueViolation,
    ),
    "own manager": (
        (
            "INSERT INTO evaluations.manager_edges (tenant_id, person_id, manager_id, starts_on)"
            " SELECT tenant_id, id, id, now() FROM evaluations.people WHERE external_id = '1'"
        ),
        psycopg.errors.CheckViolation,
    ),
    "edge that ends before it starts": (
        "UPDATE evaluations.manager_edges SET ends_on = starts_on - 1",
        psycopg.errors.CheckViolation,
    ),
    "evaluation twice": (
        (
            "INSERT INTO evaluations.evaluations"
            " (tenant_id, cycle_id, participant_id, evaluator_id, relation)"
            " SELECT tenant_id, cycle_id, participant_id, evaluator_id, relation"
            " FROM evaluations.evaluations LIMIT 1"
        ),
        psycopg.errors.UniqueViolation,
    ),
    "self that is somebody else": (
        "UPDATE evaluations.evaluations SET relation = 'self' WHERE relation = 'upward'",
        psycopg.errors.CheckViolation,
    ),
    "active cycle without a time": (
        "UPDATE evaluations.cycles SET state = 'active'",
        psycopg.errors.CheckViolation,
    ),
    "address with a second header": (
        "UPDATE evaluations.people SET email = E'a@example.com\\nBcc: b@example.com'",
        psycopg.errors.CheckViolation,
    ),
    "rule that nobody knows": (
        "UPDATE evaluations.cycles SET rules = ARRAY['friend']",
        psycopg.errors.CheckViolation,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_make_no_sense_are_refused_from_sql_by_hand(worker, case):
    import_text(worker, SMALL)
    a_draft(worker)
    statement, error = REFUSED[case]

    with pytest.raises(error):
        worker.execute(statement)


def test_the_guard_locks_each_cycle_once_however_many_rows_enter(worker):
    import_text(worker, SMALL)
    first, second = a_draft(worker, "a", people=[]), a_draft(worker, "b", people=[])

    worker.execute(
        "INSERT INTO evaluations.participants (tenant_id, cycle_id, person_id, added_by)"
        " SELECT p.tenant_id, c.id, p.id, 'by hand'"
        " FROM evaluations.people AS p, evaluations.cycles AS c"
    )

    counted = worker.execute(
        "SELECT cycle_id, count(*) FROM evaluations.participants GROUP BY cycle_id"
    ).fetchall()
    assert sorted(counted) == sorted([(first.id, 4), (second.id, 4)])
