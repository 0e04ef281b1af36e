import pytest
from cycle_factory import (
    ACTOR,
    SMALL,
    TENANT,
    a_draft,
    a_tenant,
    activation,
    as_role,
    dump,
    import_text,
    noting,
)
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from relevo.db.drivers import run
from relevo_apps.evaluations import service
from relevo_apps.evaluations.errors import ActivationBlocked, CycleNotDraft
from relevo_apps.evaluations.model.cycles import Relation
from relevo_apps.evaluations.model.findings import FindingKind

pytestmark = pytest.mark.core


def preflight(cycle, tenant=TENANT):
    return service.preflight(tenant, cycle.id, actor=ACTOR)


def test_a_preflight_tells_what_the_activation_would_do(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)

    report = run(worker, preflight(cycle))

    assert report.refusal is None
    assert (report.evaluations, report.notifications) == (10, 4)
    assert [(one.full_name, one.evaluations) for one in report.ready] == [
        ("Ana Álvarez", 3),
        ("Bruno Díaz", 3),
        ("Célia Nóbrega", 2),
        ("Dan Young", 2),
    ]
    assert [finding.kind for finding in report.warnings] == [FindingKind.WITHOUT_MANAGER]
    assert report.blocked == ()


@pytest.mark.parametrize("commits", [True, False])
def test_a_preflight_leaves_every_table_as_it_was(committer, commits):
    import_text(committer, SMALL)
    cycle = a_draft(committer)
    committer.commit()
    before = dump(committer)

    run(committer, preflight(cycle))

    assert dump(committer) == before
    if commits:
        committer.commit()
    else:
        committer.rollback()
    assert dump(committer) == before


def test_a_preflight_goes_through_every_statement_of_the_activation(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    rehearsed: list[str] = []
    done: list[str] = []

    run(worker, noting(preflight(cycle), rehearsed))
    run(worker, noting(activation(cycle), done))

    start = rehearsed.index("begin_preflight") + 1
    assert rehearsed[start : start + len(done)] == done


def test_a_preflight_releases_the_cycle(database):
    with as_role(database) as first, as_role(database, "relevo_web") as second:
        import_text(first, SMALL)
        cycle = a_draft(first)
        first.commit()
        run(first, preflight(cycle))

        second.execute("SET LOCAL lock_timeout = '1ms'")

        assert run(second, activation(cycle)).notifications == 4


def test_a_blocked_preflight_lists_who_is_ready_and_what_blocks(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    import_text(worker, "id,name,email\n4,Dan Young,\n")

    report = run(worker, preflight(cycle))

    assert isinstance(report.refusal, ActivationBlocked)
    assert [(one.kind, one.external_id) for one in report.blocked] == [
        (FindingKind.EVALUATOR_WITHOUT_EMAIL, "4")
    ]
    assert [one.external_id for one in report.ready] == ["1", "2", "3"]
    assert (report.notifications, report.activation) == (0, None)
    assert all(finding.what and finding.kind.todo for finding in report.blocked)


def test_a_preflight_of_an_active_cycle_tells_its_state(worker):
    import_text(worker, SMALL)
    cycle = a_draft(worker)
    run(worker, activation(cycle))

    report = run(worker, preflight(cycle))

    assert isinstance(report.refusal, CycleNotDraft)
    assert (report.ready, report.notifications) == ((), 0)
    assert run(worker, service.cycle_status(TENANT, cycle.id)).notifications.total == 4


# Half of the cycles should be ready, so that both answers are compared.
RULES = [
    *([Relation.SELF, *others] for others in ([], ["manager"], ["upward", "peer"], ["manager"])),
    *([relation] for relation in Relation),
    list(Relation),
]


def mostly(values, usually=12):
    return st.sampled_from(values[:1] * usually + values[1:])


PEOPLE = st.lists(
    st.fixed_dictionaries(
        {
            "manager": st.integers(-2, 7),
            "active": mostly([True, False]),
            "email": mostly(["own", "shared", "none"], usually=16),
            "takes_part": mostly([True, False], usually=3),
        }
    ),
    min_size=1,
    max_size=8,
)
ORGANISATIONS = st.fixed_dictionaries(
    {
        "people": PEOPLE,
        "rules": st.sampled_from(RULES),
        "peers": st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6),
        "generated": mostly([True, False]),
        "leaves_later": mostly([None, 0, 1, 2, 3]),
    }
)


def build(connection, tenant, organisation):
    """Bring a random organisation into a tenant; answer its cycle."""
    rows = ["id,name,email,manager,status"]
    for number, person in enumerate(organisation["people"]):
        email = {"own": f"p{number}@example.com", "shared": f"s{number}@example.com", "none": ""}
        manager = person["manager"] if 0 <= person["manager"] < number else ""
        status = "active" if person["active"] else "left"
        rows.append(f"{number},P{number},{email[person['email']]},{manager},{status}")
    report = import_text(connection, "\n".join(rows), tenant)
    assert report.refused == 0
    connection.execute(
        "UPDATE evaluations.people SET email = 'all@example.com'"
        " WHERE tenant_id = %s AND email LIKE 's%%'",
        (tenant,),
    )
    taking_part = [
        str(number) for number, person in enumerate(organisation["people"]) if person["takes_part"]
    ]
    rules = tuple(Relation(rule) for rule in organisation["rules"])
    cycle = a_draft(connection, tenant=tenant, rules=rules, people=taking_part, generated=False)
    if Relation.PEER in rules:
        pairs = [(str(one), str(two)) for one, two in organisation["peers"]]
        run(connection, service.add_peers(tenant, cycle.id, pairs, actor=ACTOR))
    if organisation["generated"]:
        run(connection, service.generate_evaluations(tenant, cycle.id, actor=ACTOR))
    if organisation["leaves_later"] is not None:
        connection.execute(
            "UPDATE evaluations.people SET active = false"
            " WHERE tenant_id = %s AND external_id = %s",
            (tenant, str(organisation["leaves_later"])),
        )
    return cycle


def must_refuse(connection, tenant):
    """Say, from the rows alone, whether an activation must be refused."""
    row = connection.execute(
        "SELECT NOT EXISTS (SELECT FROM evaluations.participants WHERE tenant_id = %(tenant)s)"
        " OR EXISTS (SELECT FROM evaluations.participants AS p WHERE p.tenant_id = %(tenant)s"
        "   AND NOT EXISTS (SELECT FROM evaluations.evaluations AS e"
        "     WHERE e.tenant_id = p.tenant_id AND e.participant_id = p.person_id))"
        " OR EXISTS (SELECT FROM evaluations.evaluations AS e JOIN evaluations.people AS p"
        "   ON p.tenant_id = e.tenant_id AND p.id = e.evaluator_id"
        "   WHERE e.tenant_id = %(tenant)s AND (NOT p.active OR p.email IS NULL))",
        {"tenant": tenant},
    ).fetchone()
    return row[0]


@pytest.fixture
def tenants(database):
    """An endless supply of tenants in one database, the third and later ones."""
    numbers = iter(range(3, 100_000))
    with as_role(database) as owner:
        yield lambda: (owner, a_tenant(owner, next(numbers)))
        owner.rollback()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(organisation=ORGANISATIONS, other=ORGANISATIONS)
def test_a_preflight_equals_the_activation(database, tenants, organisation, other):
    """Mechanism: `preflight` runs `activate` itself and takes it back to a savepoint."""
    owner, tenant = tenants()
    _, neighbour = tenants()
    cycle = build(owner, tenant, organisation)
    build(owner, neighbour, other)
    owner.commit()
    with as_role(database, "relevo_web", tenant) as web:
        before = dump(owner)

        rehearsed = run(web, preflight(cycle, tenant))
        web.commit()

        assert dump(owner) == before
        assert (rehearsed.refusal is not None) == must_refuse(owner, tenant)
        owner.commit()
        event("refused" if rehearsed.refusal else "activated")
        if rehearsed.refusal:
            with pytest.raises(type(rehearsed.refusal)) as refused:
                run(web, activation(cycle, tenant))
            assert refused.value.fields == rehearsed.refusal.fields
            web.rollback()
            assert dump(owner) == before
        else:
            done = run(web, activation(cycle, tenant))
            assert counts(done) == counts(rehearsed.activation)
            assert done.notifications == len(rehearsed.ready) == rehearsed.notifications
            assert done.warnings == rehearsed.warnings
            assert sum(one.evaluations for one in rehearsed.ready) == done.evaluations
            web.commit()
        status = run(web, service.cycle_status(tenant, cycle.id))
        assert status.notifications.total == rehearsed.notifications
    owner.commit()


def counts(done):
    return (done.evaluations, done.evaluators, done.created, done.revived, done.already_there)
