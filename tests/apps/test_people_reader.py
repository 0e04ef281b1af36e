import io

import pytest

from relevo_apps.evaluations.importer import (
    DateOrder,
    ProblemKind,
    ReadOptions,
    read_peers,
    read_people,
)
from relevo_apps.evaluations.model.people import Language
from relevo_apps.evaluations.model.text import clean, fold, is_address, sort_key


def read(text: str, **options):
    return read_people(text.encode(), ReadOptions(**options))


def only_problem(text: str, **options):
    file = read(text, **options)
    (problem,) = file.problems
    assert problem.what
    assert problem.todo
    return problem


@pytest.mark.parametrize(
    "header",
    [
        "employee_id,first_name,last_name,email,manager_id,language,department,job_title,hire_date",
        "LEGAJO;Nombre;Apellidos;Correo electrónico;ID del jefe;Idioma;Área;Puesto;Fecha ingreso",
        "Matrícula\tNome\tSobrenome\tE-mail\tGestor\tLíngua\tSetor\tFunção\tData de admissão",
        "Id|Given Name|SURNAME|E-Mail Address|Reports To|Locale|Team|Title|Start-Date",
    ],
)
def test_headers_in_three_languages_mean_the_same_columns(header):
    file = read(f"{header}\r\n")

    assert file.columns == {
        "external_id", "first_name", "last_name", "email", "manager",
        "language", "department", "job_title", "hire_date",
    }  # fmt: skip
    assert not file.warnings


def test_a_name_column_is_the_first_name_beside_a_family_name_and_the_whole_name_alone():
    beside = read("id,nombre,apellido\n1,Ana,Ruiz\n").records[0]
    alone = read("id,nombre\n1,Ana Ruiz\n").records[0]

    assert (beside.first_name, beside.last_name, beside.full_name) == ("Ana", "Ruiz", "Ana Ruiz")
    assert (alone.first_name, alone.last_name, alone.full_name) == ("", "", "Ana Ruiz")


def test_a_full_name_with_a_comma_is_family_name_first():
    record = read('id,apellido y nombre\n1,"Núñez, María José"\n').records[0]

    assert (record.first_name, record.last_name) == ("María José", "Núñez")
    assert record.full_name == "María José Núñez"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_is_read_with_and_without_a_mark(encoding):
    file = read_people("id,name\n1,Íñigo Peña\n".encode(encoding))

    assert file.records[0].full_name == "Íñigo Peña"
    assert not file.warnings


def test_windows_1252_is_read_with_a_warning():
    file = read_people("id;name\n1;José Muñoz\n".encode("cp1252"))

    assert file.records[0].full_name == "José Muñoz"
    assert [warning.kind for warning in file.warnings] == [ProblemKind.NOT_UTF8]


def test_bytes_that_are_no_text_are_refused():
    problem = read_people(b"id,name\n1,\x81\xff\n").problems[0]

    assert problem.kind is ProblemKind.UNREADABLE


def test_commas_inside_cells_do_not_decide_the_delimiter():
    file = read('id;name;"title, or job, or role, or position"\n1;"a,b,c,d";"e,f"\n')

    assert file.delimiter == ";"
    assert file.records[0].full_name == "a,b,c,d"


def test_the_line_of_a_spreadsheet_that_names_the_delimiter_is_obeyed():
    file = read("sep=;\nid;name\n1;Ana\n")

    assert (file.delimiter, file.records[0].line) == (";", 3)


def test_quoted_commas_quotes_and_newlines_stay_in_their_cell_and_lines_keep_their_numbers():
    text = 'id,name,title\n1,"Díaz, ""Beto""","Head\nof\nSales, South"\n\n2,Ana,\n3,,x\n'

    file = read(text)

    assert [(record.line, record.external_id) for record in file.records] == [
        (2, "1"),
        (6, "2"),
        (7, "3"),
    ]
    assert file.records[0].job_title == "Head of Sales, South"
    assert [(one.line, one.kind) for one in file.problems] == [(7, ProblemKind.NAME_MISSING)]


def test_unbalanced_quotes_are_told_with_the_line_on_which_they_open():
    problem = only_problem('id,name\n1,Ana\n2,"Bruno\n3,Carla\n')

    assert (problem.kind, problem.line) == (ProblemKind.BROKEN_QUOTES, 3)


def test_a_missing_column_is_told_with_the_names_that_it_may_have():
    problem = only_problem("name,email\nAna,ana@example.com\n")

    assert problem.kind is ProblemKind.HEADER_MISSING
    assert "employee id" in problem.todo


def test_two_columns_of_one_meaning_are_refused():
    problem = only_problem("id,name,email,correo\n1,Ana,a@example.com,b@example.com\n")

    assert (problem.kind, problem.column) == (ProblemKind.HEADER_DUPLICATED, "correo")


def test_a_column_that_is_not_known_is_left_out_with_a_warning():
    file = read("id,name,shoe size\n1,Ana,38\n")

    assert [warning.column for warning in file.warnings] == ["shoe size"]
    assert not file.problems


@pytest.mark.parametrize("text", ["", "\n\n", "id,name\n", "\ufeff"])
def test_a_file_without_rows_is_refused(text):
    assert only_problem(text).kind is ProblemKind.EMPTY_FILE


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole():
    class Endless(io.RawIOBase):
        def read(self, size=-1):
            assert size >= 0
            return b"x" * size

    file = read_people(Endless(), ReadOptions(largest_file=10_000))

    assert [problem.kind for problem in file.problems] == [ProblemKind.TOO_LARGE]


def test_a_file_with_too_many_rows_is_refused():
    file = read("id,name\n1,A\n2,B\n3,C\n", most_rows=2)

    assert [problem.kind for problem in file.problems] == [ProblemKind.TOO_LARGE]
    assert len(file.records) == 2


@pytest.mark.parametrize(
    ("row", "kind", "column", "value"),
    [
        (",Ana,,,", ProblemKind.ID_MISSING, "id", ""),
        ("1,,,,", ProblemKind.NAME_MISSING, "name", ""),
        ("1,Ana,ana@,,", ProblemKind.EMAIL_BAD, "e-mail", "ana@"),
        ("1,Ana,añá@example.com,,", ProblemKind.EMAIL_BAD, "e-mail", "añá@example.com"),
        ("1,Ana,,fr,", ProblemKind.LANGUAGE_UNKNOWN, "lang", "fr"),
        ("1,Ana,,,31/02/2024", ProblemKind.DATE_BAD, "hired on", "31/02/2024"),
        ("1,Ana,,,03/04/2024", ProblemKind.DATE_AMBIGUOUS, "hired on", "03/04/2024"),
        ("1,Ana,,,3/4/24", ProblemKind.DATE_BAD, "hired on", "3/4/24"),
        ("1,A\x00na,,,", ProblemKind.BAD_CHARACTER, "name", "A na"),
        ("1," + "x" * 501 + ",,,", ProblemKind.TOO_LONG, "name", "x" * 79 + "…"),
        ("1,Díaz, Ana,,,", ProblemKind.WRONG_WIDTH, "", ""),
        ("1,Ana", ProblemKind.WRONG_WIDTH, "", ""),
    ],
)
def test_a_bad_cell_is_told_with_its_line_column_and_value(row, kind, column, value):
    problem = only_problem(f"id,name,e-mail,lang,hired on\n9,Bea,,,\n{row}\n")

    assert (problem.line, problem.kind) == (3, kind)
    assert (problem.column, problem.value) == (column, value)


def test_an_address_cannot_open_a_second_header():
    file = read('id,name,email\n1,Ana,"ana@example.com\r\nBcc: all@example.com"\n')

    assert [problem.kind for problem in file.problems] == [ProblemKind.EMAIL_BAD]
    assert "\n" not in file.problems[0].value


@pytest.mark.parametrize(
    ("text", "order", "day"),
    [
        ("2024-03-31", None, "2024-03-31"),
        ("2024-03-31 00:00:00", None, "2024-03-31"),
        ("31/03/2024", None, "2024-03-31"),
        ("03/31/2024", None, "2024-03-31"),
        ("4.4.2024", None, "2024-04-04"),
        ("03/04/2024", DateOrder.DAY_FIRST, "2024-04-03"),
        ("03/04/2024", DateOrder.MONTH_FIRST, "2024-03-04"),
        ("2024-04-03", DateOrder.DAY_FIRST, "2024-04-03"),
    ],
)
def test_dates_are_read_in_the_declared_order(text, order, day):
    file = read(f"id,name,hire date\n1,Ana,{text}\n", date_order=order)

    assert str(file.records[0].hire_date) == day


@pytest.mark.parametrize(
    ("text", "language"),
    [("es-AR", "es"), ("Español", "es"), ("PT_BR", "pt"), ("Português", "pt"), ("English", "en")],
)
def test_languages_are_known_by_code_and_by_name(text, language):
    record = read(f"id,name,language\n1,Ana,{text}\n").records[0]

    assert record.language == language


def test_an_empty_language_is_the_default_one():
    record = read("id,name,language\n1,Ana,\n", default_language=Language.PORTUGUESE).records[0]

    assert record.language is Language.PORTUGUESE


@pytest.mark.parametrize(("text", "active"), [("Activo", True), ("baja", False), ("", True)])
def test_the_status_says_who_left(text, active):
    assert read(f"id,name,estado\n1,Ana,{text}\n").records[0].active is active


def test_a_person_without_an_address_is_read_with_a_warning():
    file = read("id,name,email\n1,Ana,\n")

    assert not file.problems
    assert [(one.kind, one.line) for one in file.warnings] == [(ProblemKind.EMAIL_MISSING, 2)]


def test_the_real_file_is_read_whole(hr_employees):
    file = read_people(hr_employees)

    assert (file.rows, len(file.records)) == (107, 107)
    assert not file.problems
    assert not file.warnings


def test_names_sort_by_family_name_whatever_their_accents():
    people = [("Óscar", "Zúñiga"), ("Ana", "álvarez"), ("Íñigo", "Alvarez"), ("Bea", "Núñez")]

    keys = sorted(sort_key(first_name=f, last_name=n, full_name=f"{f} {n}") for f, n in people)

    assert keys == ["alvarez ana", "alvarez inigo", "nunez bea", "zuniga oscar"]
    assert fold("  STRASSE  Ñandú ") == fold("straße nandu")
    assert clean(" a\u00a0 b\n c ") == "a b c"


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("sking@example.com", True),
        ("o'brien+tag@mail.example.co", True),
        ("a@b", False),
        ("a..b@example.com", False),
        (".a@example.com", False),
        ("a@-example.com", False),
        ("a b@example.com", False),
        ("a@example.com,b@example.com", False),
        ("x" * 65 + "@example.com", False),
    ],
)
def test_an_address_is_good_only_when_a_mail_server_takes_it(address, good):
    assert is_address(address) is good


def test_the_peers_file_names_pairs_by_id_or_by_address():
    file = read_peers(b"Evaluado;Evaluador\n1;2\nana@example.com;3\n")

    assert file.pairs == (("1", "2"), ("ana@example.com", "3"))
    assert not file.problems


def test_the_peers_file_tells_what_is_wrong_row_by_row():
    file = read_peers(b"RevieweeEmail,ReviewerEmail\n1,\n2,2\n3\n4,5\n")

    assert [(one.line, one.kind) for one in file.problems] == [
        (2, ProblemKind.REFERENCE_MISSING),
        (3, ProblemKind.PEER_SELF),
        (4, ProblemKind.WRONG_WIDTH),
    ]
    assert file.pairs == (("4", "5"),)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", ProblemKind.EMPTY_FILE),
        (b"participant,peer\n", ProblemKind.EMPTY_FILE),
        (b"participant\n1\n", ProblemKind.HEADER_MISSING),
        (b'participant,peer\n1,"2\n', ProblemKind.BROKEN_QUOTES),
        (b"\xff\xfe\x00", ProblemKind.UNREADABLE),
    ],
)
def test_a_peers_file_that_cannot_be_used_says_why(content, kind):
    assert [problem.kind for problem in read_peers(content).problems] == [kind]
