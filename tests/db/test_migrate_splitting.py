"""Where one SQL statement ends and the next begins."""

import pytest

from relevo.db.migrate.splitting import split_statements


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("-- only a comment;\n;;", []),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \";\"; SELECT 2;", ["SELECT ';', \";\"", "SELECT 2"]),
        ("SELECT 'it''s;'; SELECT 2", ["SELECT 'it''s;'", "SELECT 2"]),
        (r"SELECT E'\';'; SELECT 2", [r"SELECT E'\';'", "SELECT 2"]),
        (r"SELECT '\'; SELECT 2", [r"SELECT '\'", "SELECT 2"]),
        ("SELECT $$;$$; SELECT $a$ $$;$$ $a$;", ["SELECT $$;$$", "SELECT $a$ $$;$$ $a$"]),
        ("SELECT a$b$c; SELECT 2", ["SELECT a$b$c", "SELECT 2"]),
        ("SELECT $1; SELECT 2", ["SELECT $1", "SELECT 2"]),
        ("SELECT 1 -- a; b\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("SELECT /* ; /* ; */ ; */ 1; SELECT 2", ["SELECT   1", "SELECT 2"]),
        (
            "CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b); SELECT 2",
            ["CREATE RULE r AS ON INSERT TO t DO (DELETE FROM a; DELETE FROM b)", "SELECT 2"],
        ),
        (
            (
                "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END;"
                " SELECT 2"
            ),
            [
                "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; END",
                "SELECT 2",
            ],
        ),
        (
            "BEGIN; SELECT CASE WHEN a THEN 1 END; COMMIT",
            ["BEGIN", "SELECT CASE WHEN a THEN 1 END", "COMMIT"],
        ),
        ("DO $do$ BEGIN NULL; END $do$; SELECT 2", ["DO $do$ BEGIN NULL; END $do$", "SELECT 2"]),
    ],
)
def test_a_script_is_split_where_a_statement_ends(text, statements):
    assert split_statements(text) == statements
