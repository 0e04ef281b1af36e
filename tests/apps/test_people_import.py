import os
import tracemalloc
from datetime import date

import psycopg
import pytest
from changed_organisations import change_organisation
from cycle_factory import (
    SMALL,
    TENANT,
    a_tenant,
    as_role,
    import_text,
    in_thread,
    is_blocked,
    noting,
    until,
)
from spoiled_organisations import add_defects

from relevo.db.drivers import run
from relevo_apps.evaluations import service
from relevo_apps.evaluations.generator import generate_organisation
from relevo_apps.evaluations.importer import ProblemKind, check_people, read_people


def edges(connection, *, open_only=False):
    return connection.execute(
        "SELECT person.external_id, manager.external_id, edge.starts_on, edge.ends_on"
        " FROM evaluations.manager_edges AS edge"
        " JOIN evaluations.people AS person ON person.id = edge.person_id"
        " JOIN evaluations.people AS manager ON manager.id = edge.manager_id"
        " WHERE edge.ends_on IS NULL OR NOT %s ORDER BY edge.id",
        (open_only,),
    ).fetchall()


def test_the_real_file_brings_107_people_and_18_managers(worker, hr_employees):
    report = run(worker, service.import_people(TENANT, read_people(hr_employees)))

    assert (report.created, report.updated, report.unchanged, report.refused) == (107, 0, 0, 0)
    assert (report.headcount.people, report.headcount.managers) == (107, 18)


def test_the_same_file_again_changes_nothing(worker):
    import_text(worker, SMALL)
    before = worker.execute("SELECT p::text FROM evaluations.people AS p ORDER BY 1").fetchall()

    report = import_text(worker, SMALL)

    assert (report.created, report.updated, report.moved, report.unchanged) == (0, 0, 0, 4)
    assert (
        before
        == worker.execute("SELECT p::text FROM evaluations.people AS p ORDER BY 1").fetchall()
    )


def test_a_move_ends_one_edge_and_begins_another_on_the_given_day(worker):
    import_text(worker, SMALL, effective_on=date(2025, 1, 1))

    report = import_text(
        worker, SMALL.replace("dan@example.com,2", "dan@example.com,3"),
        effective_on=date(2025, 6, 1),
    )  # fmt: skip

    assert (report.moved, report.updated, report.unchanged) == (1, 1, 3)
    assert edges(worker)[-2:] == [
        ("4", "2", date(2025, 1, 1), date(2025, 6, 1)),
        ("4", "3", date(2025, 6, 1), None),
    ]


def test_an_empty_manager_ends_the_edge_and_a_missing_column_keeps_it(worker):
    import_text(worker, SMALL)

    kept = import_text(worker, "id,name\n4,Dan Young\n")
    ended = import_text(worker, "id,name,manager\n4,Dan Young,\n")

    assert (kept.unchanged, kept.moved) == (1, 0)
    assert ended.moved == 1
    assert [edge[0] for edge in edges(worker, open_only=True)] == ["2", "3"]


def test_a_move_back_in_time_never_overlaps_an_earlier_edge(worker):
    import_text(worker, SMALL, effective_on=date(2025, 6, 1))

    import_text(
        worker, SMALL.replace("dan@example.com,2", "dan@example.com,3"),
        effective_on=date(2025, 1, 1),
    )  # fmt: skip

    assert edges(worker)[-2:] == [
        ("4", "2", date(2025, 6, 1), date(2025, 6, 1)),
        ("4", "3", date(2025, 6, 1), None),
    ]


def test_columns_that_the_file_does_not_have_keep_what_is_known(worker):
    import_text(worker, "id,name,email,language,title\n1,Ana,ana@example.com,pt,Chief\n")

    report = import_text(worker, "id,name\n1,Ana María\n")

    assert report.updated == 1
    assert worker.execute(
        "SELECT full_name, email, language, job_title FROM evaluations.people"
    ).fetchall() == [("Ana María", "ana@example.com", "pt", "Chief")]


def test_a_file_with_one_bad_row_imports_nothing(worker):
    report = import_text(worker, SMALL + "5,,eva@example.com,1\n")

    assert (report.applied, report.created, report.refused) == (False, 0, 5)
    assert [(one.line, one.kind) for one in report.problems] == [(6, ProblemKind.NAME_MISSING)]
    assert report.headcount.people == 0


def test_a_partial_import_brings_the_good_rows(worker):
    report = import_text(worker, SMALL + "5,,eva@example.com,1\n", partial=True)

    assert (report.applied, report.created, report.refused) == (True, 4, 1)


def test_rolling_back_an_import_leaves_nobody(worker):
    import_text(worker, SMALL)
    worker.rollback()

    assert run(worker, service.count_people(TENANT)).people == 0


def test_an_import_takes_as_many_statements_for_2_000_people_as_for_10(worker):
    few: list[str] = []
    many: list[str] = []

    for size, names in ((10, few), (2_000, many)):
        file = read_people(generate_organisation(size).csv().encode())
        run(worker, noting(service.import_people(TENANT, file), names))
        worker.rollback()

    assert few == many
    assert len(few) == 8


def test_an_import_gives_the_planner_settings_back(worker):
    before = worker.execute("SHOW enable_nestloop").fetchone()

    import_text(worker, SMALL)

    assert worker.execute("SHOW enable_nestloop").fetchone() == before


def test_movers_leavers_and_joiners_are_told_apart(worker):
    organisation = generate_organisation(60, seed=4)
    import_text(worker, organisation.csv())

    later = change_organisation(organisation, seed=5, moves=3, leavers=2, joiners=4)
    report = import_text(worker, later.csv())

    assert (report.created, report.updated, report.moved) == (4, 5, 3)
    assert report.unchanged == 55
    assert report.headcount.people == 62


def test_two_imports_of_a_tenant_cannot_close_a_loop_together(database):
    """Mechanism: the advisory lock of `lock_people`, taken before the directory is read."""
    with as_role(database) as first, as_role(database) as second, as_role(database) as watcher:
        import_text(first, "id,name,manager\n1,A,\n2,B,\n")
        first.commit()
        import_text(first, "id,name,manager\n1,A,2\n")

        with in_thread(lambda: import_text(second, "id,name,manager\n2,B,1\n")) as answers:
            until(lambda: is_blocked(watcher, second.info.backend_pid), "the import waits")
            first.commit()

    (report,) = answers
    assert [problem.kind for problem in report.problems] == [ProblemKind.MANAGER_LOOP]


def test_tenants_import_the_same_people_without_meeting(database):
    with as_role(database) as owner:
        tenants = [a_tenant(owner, 7), a_tenant(owner, 8)]
    for tenant in tenants:
        with as_role(database, "relevo_web", tenant) as web:
            assert import_text(web, SMALL, tenant).created == 4

    with as_role(database) as owner:
        assert owner.execute("SELECT count(*) FROM evaluations.people").fetchone() == (8,)


def test_the_web_cannot_import_into_another_tenant(database):
    with as_role(database) as owner:
        mine, other = a_tenant(owner, 7), a_tenant(owner, 8)

    with (
        as_role(database, "relevo_web", mine) as web,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        import_text(web, SMALL, other)


def test_people_are_listed_by_family_name_page_by_page(worker):
    import_text(
        worker,
        "id,nombre,apellido\n1,Óscar,Zúñiga\n2,Ana,álvarez\n3,Íñigo,Alvarez\n4,Bea,Núñez\n",
    )

    first = run(worker, service.list_people(TENANT, limit=3))
    rest = run(worker, service.list_people(TENANT, after=(first[-1].sort_key, first[-1].id)))

    assert [person.external_id for person in [*first, *rest]] == ["2", "3", "4", "1"]


def test_a_generated_organisation_is_the_same_from_the_same_seed():
    one, two, other = (generate_organisation(50, seed=seed) for seed in (1, 1, 2))

    assert one == two
    assert one.csv() != other.csv()


@pytest.mark.parametrize("size", [9, 50_001])
def test_an_organisation_out_of_bounds_is_refused(size):
    with pytest.raises(ValueError, match="10 to 50000"):
        generate_organisation(size)


def test_a_generated_organisation_is_a_clean_file_in_three_languages():
    organisation = generate_organisation(500, seed=9)

    file = read_people(organisation.csv().encode())
    checked = check_people(file, [])

    assert checked.records == organisation.people
    assert not checked.problems
    assert not checked.warnings
    assert {person.language for person in organisation.people} == {"es", "pt", "en"}
    assert organisation.managers == len({boss for _, boss in checked.managers if boss})
    assert sum(boss is None for _, boss in checked.managers) == 1


def test_each_defect_of_a_generated_file_is_told_on_its_line():
    organisation, expected = add_defects(generate_organisation(300, seed=2), 40, seed=3)

    checked = check_people(read_people(organisation.csv().encode()), [])

    assert len(expected) == 40
    assert {problem.line: problem.kind for problem in checked.problems} == expected


def test_reading_a_large_file_needs_little_memory():
    """Up to 50,000 people, the largest organisation that the generator makes."""
    size = int(os.environ.get("RELEVO_TEST_PEOPLE", "5000"))
    content = generate_organisation(size).csv().encode()

    tracemalloc.start()
    checked = check_people(read_people(content), [])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(checked.records) == size
    assert peak < size * 3_000 + 2_000_000
