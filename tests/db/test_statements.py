"""Statements read from text: their names, their parameters, and what is refused."""

import pytest

from relevo.db.statements import Statement, parse_statements

TWO = """
-- What the file is about.

-- name: find_thing
-- Answers one thing.
SELECT id
FROM things
WHERE id = %(id)s::bigint
  AND name LIKE '50%%'
  AND (%(kind)s::text IS NULL OR kind = %(kind)s::text);

-- name: count_things
-- Answers how many there are.
SELECT count(*) FROM things;
"""


def test_a_file_gives_its_statements_by_name_and_in_order() -> None:
    found = parse_statements(TWO)

    assert list(found) == ["find_thing", "count_things"]
    assert found["count_things"].sql == "/* count_things */\nSELECT count(*) FROM things"


def test_parameters_come_in_the_order_of_their_first_use() -> None:
    statement = parse_statements(TWO)["find_thing"]

    assert statement.parameters == ("id", "kind")
    assert statement.positional({"kind": "a", "id": 7, "other": None}) == [7, "a"]


def test_numbered_gives_a_name_one_number_and_undoubles_percent_signs() -> None:
    numbered = parse_statements(TWO)["find_thing"].numbered

    assert "id = $1::bigint" in numbered
    assert "($2::text IS NULL OR kind = $2::text)" in numbered
    assert "LIKE '50%'" in numbered


def test_a_statement_is_sent_as_bytes_unless_the_client_encoding_matters() -> None:
    plain, accented = Statement("plain", "SELECT %(a)s"), Statement("accented", "SELECT 'é'")

    assert plain.sendable == b"SELECT $1"
    assert accented.sendable == "SELECT 'é'"


def test_a_doubled_percent_sign_before_a_parenthesis_is_no_parameter() -> None:
    statement = Statement("odd", "SELECT 7 %%(id)s, '%%%(id)s'")

    assert statement.parameters == ("id",)
    assert statement.numbered == "SELECT 7 %(id)s, '%$1'"


def test_a_value_that_is_missing_is_named() -> None:
    with pytest.raises(KeyError, match="kind"):
        parse_statements(TWO)["find_thing"].positional({"id": 7})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;", "statement a is named twice"),
        ("SELECT 1;\n-- name: a\nSELECT 2;", "SQL before the first name: SELECT 1;"),
        ("-- name: a\n-- Does nothing.\n-- name: b\nSELECT 1;", "statement a says nothing"),
        ("-- name: findThing\nSELECT 1;", "not a statement's name: -- name: findThing"),
        ("-- name: a\nSELECT 7 % 2;", "statement a has a single % before ' 2'; write %%"),
        ("-- name: a\nSELECT %(Id)s;", "statement a has a single % before '\\(Id\\)s'"),
    ],
)
def test_a_file_that_drivers_would_read_differently_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_statements(text)
