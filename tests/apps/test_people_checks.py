from hypothesis import given
from hypothesis import strategies as st

from relevo_apps.evaluations.importer import ProblemKind, check_people, read_people
from relevo_apps.evaluations.model.hierarchy import find_loops
from relevo_apps.evaluations.model.people import KnownPerson


def check(text: str, known=(), *, partial=False):
    return check_people(read_people(text.encode()), known, partial=partial)


def kinds(checked):
    return [(problem.line, problem.kind) for problem in checked.problems]


def ids(checked):
    return [record.external_id for record in checked.records]


def test_managers_may_come_after_their_reports_and_be_named_by_address():
    checked = check(
        "id,name,email,manager\n3,C,c@example.com,B@Example.com\n2,B,b@example.com,1\n1,A,,\n"
    )

    assert dict(checked.managers) == {"3": "2", "2": "1", "1": None}
    assert not checked.problems


def test_rows_that_share_an_id_are_all_told():
    checked = check("id,name\n1,A\n2,B\n1,C\n")

    assert kinds(checked) == [(2, ProblemKind.ID_DUPLICATED), (4, ProblemKind.ID_DUPLICATED)]
    assert [problem.fields["other"] for problem in checked.problems] == [4, 2]


def test_addresses_are_the_same_whatever_their_case():
    checked = check("id,name,email\n1,A,ana@example.com\n2,B,Ana@EXAMPLE.com\n")

    assert kinds(checked) == [(2, ProblemKind.EMAIL_DUPLICATED), (3, ProblemKind.EMAIL_DUPLICATED)]


def test_an_address_of_somebody_outside_the_file_is_taken():
    known = [KnownPerson("9", "Zoe", "zoe@example.com", active=True, manager=None)]

    checked = check("id,name,email\n1,A,ZOE@example.com\n", known)

    assert kinds(checked) == [(2, ProblemKind.EMAIL_TAKEN)]
    assert checked.problems[0].fields["other"] == "9"


def test_two_people_may_swap_their_addresses_in_one_file():
    known = [
        KnownPerson("1", "A", "a@example.com", active=True, manager=None),
        KnownPerson("2", "B", "b@example.com", active=True, manager=None),
    ]

    checked = check("id,name,email\n1,A,b@example.com\n2,B,a@example.com\n", known)

    assert not checked.problems


def test_a_manager_whom_nobody_knows_is_told_with_the_value():
    checked = check("id,name,manager\n1,A,\n2,B,77\n3,C,boss@example.com\n")

    assert kinds(checked) == [(3, ProblemKind.MANAGER_UNKNOWN), (4, ProblemKind.MANAGER_UNKNOWN)]
    assert [problem.value for problem in checked.problems] == ["77", "boss@example.com"]


def test_a_manager_may_be_somebody_whom_only_the_database_knows():
    known = [KnownPerson("9", "Zoe", "zoe@example.com", active=True, manager=None)]

    checked = check("id,name,manager\n1,A,9\n2,B,zoe@example.com\n", known)

    assert dict(checked.managers) == {"1": "9", "2": "9"}


def test_nobody_is_their_own_manager():
    assert kinds(check("id,name,manager\n1,A,1\n")) == [(2, ProblemKind.MANAGER_SELF)]


def test_a_loop_is_named_person_by_person():
    checked = check("id,name,manager\n1,Ana,2\n2,Beto,3\n3,Cora,1\n4,Dan,3\n")

    assert kinds(checked) == [(2, ProblemKind.MANAGER_LOOP)]
    assert checked.problems[0].what.endswith("Ana (1) → Beto (2) → Cora (3) → Ana (1)")


def test_a_loop_that_closes_over_the_database_is_found():
    known = [
        KnownPerson("1", "Ana", None, active=True, manager=None),
        KnownPerson("2", "Beto", None, active=True, manager="1"),
    ]

    checked = check("id,name,manager\n1,Ana,2\n", known)

    assert checked.problems[0].what.endswith("Ana (1) → Beto (2) → Ana (1)")


def test_a_long_loop_is_shortened():
    rows = "\n".join(f"{n},P{n},{(n + 1) % 40}" for n in range(40))

    (problem,) = check(f"id,name,manager\n{rows}\n").problems

    assert "… (40)" in problem.what
    assert len(problem.what) < 300


def test_a_manager_who_left_is_a_warning():
    checked = check("id,name,manager,status\n1,A,,left\n2,B,1,active\n")

    assert not checked.problems
    assert [warning.kind for warning in checked.warnings] == [ProblemKind.MANAGER_INACTIVE]


def test_the_name_of_the_manager_beside_their_address_is_understood():
    checked = check(
        "id,name,email,manager,manager email\n"
        "1,Ana Díaz,ana@example.com,,\n2,B,,ana diaz,ana@example.com\n"
    )

    assert dict(checked.managers) == {"1": None, "2": "1"}
    assert not checked.problems


def test_two_columns_that_name_different_managers_contradict_each_other():
    checked = check(
        "id,name,email,manager,manager email\n"
        "1,A,a@example.com,,\n2,B,b@example.com,,\n3,C,,1,b@example.com\n"
    )

    assert kinds(checked) == [(4, ProblemKind.MANAGER_CONTRADICTED)]


def test_an_address_of_two_people_names_no_manager():
    known = [
        KnownPerson("8", "X", "x@example.com", active=True, manager=None),
        KnownPerson("9", "Y", "x@example.com", active=True, manager=None),
    ]

    checked = check("id,name,manager\n1,A,x@example.com\n", known)

    assert kinds(checked) == [(2, ProblemKind.MANAGER_AMBIGUOUS)]


def test_one_bad_row_refuses_the_whole_file():
    checked = check("id,name\n1,A\n2,\n")

    assert (checked.records, checked.refused) == ((), 2)


def test_a_partial_import_takes_the_good_rows_only():
    checked = check("id,name\n1,A\n2,\n3,C\n3,D\n", partial=True)

    assert (ids(checked), checked.refused) == (["1"], 3)


def test_a_partial_import_refuses_whom_a_refused_row_would_lead():
    checked = check("id,name,manager\n1,,\n2,B,1\n3,C,2\n4,D,\n", partial=True)

    assert ids(checked) == ["4"]
    assert kinds(checked) == [
        (2, ProblemKind.NAME_MISSING),
        (3, ProblemKind.MANAGER_REFUSED),
        (4, ProblemKind.MANAGER_REFUSED),
    ]


def test_a_partial_import_sees_the_loop_that_a_refused_move_leaves_open():
    known = [
        KnownPerson("1", "Ana", None, active=True, manager="2"),
        KnownPerson("2", "Beto", None, active=True, manager=None),
    ]
    text = "id,name,manager,language\n1,Ana,,klingon\n2,Beto,1,\n"

    whole, partial = check(text, known), check(text, known, partial=True)

    assert kinds(whole) == [(2, ProblemKind.LANGUAGE_UNKNOWN)]
    assert kinds(partial) == [(2, ProblemKind.LANGUAGE_UNKNOWN), (3, ProblemKind.MANAGER_LOOP)]
    assert ids(partial) == []


@given(st.dictionaries(st.integers(0, 12), st.integers(0, 12)))
def test_every_loop_is_found_once_and_whole(edges):
    managers = {str(one): str(two) for one, two in edges.items()}

    loops = find_loops(managers, managers)

    on_a_loop = set()
    for start in list(managers):
        at = start
        for _ in managers:
            at = managers.get(at, "")
            if at == start:
                on_a_loop.add(start)
    assert sorted(one for loop in loops for one in loop) == sorted(on_a_loop)
    assert all(
        managers[one] == two
        for loop in loops
        for one, two in zip(loop, [*loop[1:], loop[0]], strict=True)
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2", "3", "4", ""]),
            st.sampled_from(["A", ""]),
            st.sampled_from(["", "a@example.com", "b@example.com", "bad"]),
            st.sampled_from(["", "1", "2", "3", "4", "9", "a@example.com"]),
        ),
        max_size=6,
    ),
    st.sampled_from([None, "1", "2"]),
)
def test_what_a_partial_import_takes_would_be_taken_alone(rows, known_manager):
    known = [
        KnownPerson("1", "A", "a@example.com", active=True, manager=None),
        KnownPerson("9", "Z", "b@example.com", active=True, manager=known_manager),
    ]
    header = "id,name,email,manager\n"
    lines = [",".join(row) for row in rows]

    partial = check(header + "\n".join(lines), known, partial=True)

    taken = [lines[record.line - 2] for record in partial.records if lines]
    if taken:
        assert not check(header + "\n".join(taken), known).problems
