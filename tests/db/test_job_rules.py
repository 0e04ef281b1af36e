"""The rules of a row of jobs: none was lost when they moved from CHECKs into a domain."""

import json
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import combinations
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factories import a_job

pytestmark = pytest.mark.core

# Tries a row in the table itself and takes it back.
FITS = """
CREATE FUNCTION pg_temp.fits(facts relevo.job_facts) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO relevo.jobs (tenant_id, {columns})
    VALUES ('00000000-0000-0000-0000-000000000001', {values});
    RAISE SQLSTATE 'RV001';
EXCEPTION
    WHEN check_violation THEN RETURN false;
    WHEN SQLSTATE 'RV001' THEN RETURN true;
END $$
"""

JUDGED = """
CREATE FUNCTION pg_temp.judged(rows jsonb) RETURNS TABLE (before boolean, now boolean)
LANGUAGE sql AS $$
    SELECT {before}, pg_temp.fits(facts)
    FROM jsonb_populate_recordset(NULL::relevo.job_facts, rows) AS facts
$$
"""


def facts_of(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT attname FROM pg_attribute"
        " WHERE attrelid = 'relevo.job_facts'::regclass AND attnum > 0 ORDER BY attnum"
    )
    return [name for (name,) in found]


def rules_before(connection: psycopg.Connection) -> list[str]:
    """The CHECKs of jobs as the first migration has them, each as an expression."""
    text = files("relevo.db.migrations").joinpath("0001_foundation.sql").read_text()
    _, begun, rest = text.partition("CREATE TABLE relevo.jobs (")
    body, ended, _ = rest.partition("\n) WITH (")
    assert begun
    assert ended
    connection.execute(f"CREATE TEMP TABLE before ({body})".encode())
    found = connection.execute(
        "SELECT pg_get_expr(conbin, conrelid) FROM pg_constraint"
        " WHERE conrelid = 'before'::regclass AND contype = 'c'"
    )
    return [rule for (rule,) in found]


@pytest.fixture
def judge(connection: psycopg.Connection) -> psycopg.Connection:
    """A connection on which rows can be judged by the rules of before and of now."""
    names = facts_of(connection)
    values = ", ".join(f"facts.{name}" for name in names)
    connection.execute(FITS.format(columns=", ".join(names), values=values).encode())
    rules = rules_before(connection)
    assert len(rules) == 16
    before = " AND ".join(f"(({rule}) IS NOT FALSE)" for rule in rules)
    connection.execute(JUDGED.format(before=before).encode())
    return connection


def judged(connection: psycopg.Connection, rows: list[dict[str, Any]]) -> list[tuple[bool, bool]]:
    query = "SELECT * FROM pg_temp.judged(%s::text::jsonb)"
    return connection.execute(query, [json.dumps(rows)]).fetchall()


SOUND: dict[str, Any] = {
    "live": True,
    "priority": 2,
    "attempt": 0,
    "excused": 0,
    "losses": 0,
    "max_attempts": 6,
    "available_at": "2030-01-01T00:00:00Z",
    "state": "available",
    "queue": "default",
    "kind": "test.work",
}
STATES = ("available", "running", "completed", "failed", "cancelled")
STANDS: list[dict[str, Any]] = [
    {},
    {"state": "running", "worker": 1, "attempt": 1},
    *(
        {"state": state, "outcome": state, "live": False, "finished_at": "2030-01-01T00:00:00Z"}
        for state in STATES[2:]
    ),
]
MOMENTS = (
    None,
    "2030-01-01T00:00:00Z",
    "infinity",
    "-infinity",
    "0001-01-02T23:59:59.999999Z",
    "0001-01-03T00:00:00Z",
    "0044-03-15 00:00:00+00 BC",
    "9999-12-29T23:59:59.999999Z",
    "9999-12-30T00:00:00Z",
)
SMALL = [-(2**31), -1, 0, 1, 2, 2**31 - 1]
NAMES = [
    *("a", "0", "a.b_c-d", "a" * 63, "a" * 64, "a" * 127, "a" * 128),
    *("", " ", "-a", "A", "a b", "a\n", "\na", "a\n\nb", "\u00e9", "a\uff41", "a/b", "a$"),
]
WHATEVER = st.one_of(
    st.text(alphabet="az09_.-AZ \n\u00c0\u20ac", max_size=6),
    st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,130}", fullmatch=True),
)
# What a column is changed to: at least the two sides of each of its limits.
VALUES: dict[str, list[Any]] = {
    "live": [True, False],
    "priority": [-32768, -1, 0, 3, 4, 32767],
    "attempt": SMALL,
    "excused": SMALL,
    "losses": SMALL,
    "max_attempts": [-(2**31), 0, 1, 1000000, 1000001, 2**31 - 1],
    "available_at": list(MOMENTS[1:]),
    "state": [*STATES, "", "Running"],
    "queue": NAMES,
    "kind": NAMES,
    "outcome": [None, *STATES, ""],
    "finished_at": list(MOMENTS),
    "worker": [None, 1],
    "waiting_key": [None, "k"],
    "live_key": [None, "k"],
    "key": [None, "k"],
    "key_expires_at": [None, "2030-01-01T00:00:00Z", "infinity"],
}


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A sound row of some state with a few columns changed."""
    row = SOUND | draw(st.sampled_from(STANDS))
    for name in draw(st.sets(st.sampled_from(sorted(VALUES)), max_size=4)):
        known = st.sampled_from(VALUES[name])
        row[name] = draw(known | WHATEVER if name in ("queue", "kind") else known)
    return row


def differing(connection: psycopg.Connection, some: list[dict[str, Any]]) -> list[dict[str, Any]]:
    verdicts = judged(connection, some)
    return [row for row, (before, now) in zip(some, verdicts, strict=True) if before != now]


def test_one_or_two_changes_are_refused_now_exactly_where_they_were_before(
    judge: psycopg.Connection,
) -> None:
    """Red when a rule is left out, and when two columns are handed over in each other's place."""
    changes = [{name: value} for name, values in VALUES.items() for value in values]
    one = [SOUND | stand | change for stand in STANDS for change in changes]
    two = [SOUND | first | second for first, second in combinations(changes, 2)]

    assert differing(judge, one + two) == []


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows(), min_size=1, max_size=20))
def test_a_row_is_refused_now_exactly_where_it_was_before(
    judge: psycopg.Connection, some: list[dict[str, Any]]
) -> None:
    assert differing(judge, some) == []


def test_the_rows_that_are_tried_are_of_both_sorts(judge: psycopg.Connection) -> None:
    sound = judged(judge, [SOUND | stand for stand in STANDS])
    broken = judged(judge, [SOUND | {"priority": 4}, SOUND | {"queue": "a\n"}])

    assert set(sound) == {(True, True)}
    assert set(broken) == {(False, False)}


def test_every_column_with_a_rule_is_changed_by_the_property(judge: psycopg.Connection) -> None:
    assert set(facts_of(judge)) == set(VALUES)


LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        ("jobs_excused", {"excused": 1}),
        ("jobs_excused", {"attempt": -1, "excused": -1}),
        ("jobs_losses", {"losses": 1}),
        ("jobs_max_attempts", {"max_attempts": 0}),
        ("jobs_priority", {"priority": 4}),
        ("jobs_live_state", {"state": "waiting"}),
        ("jobs_live_state", {"live": False, "outcome": "available", "finished_at": "now"}),
        ("jobs_final_outcome", {"outcome": "completed"}),
        ("jobs_final_outcome", {"state": "failed", "outcome": "completed"}),
        ("jobs_finished_at", {"finished_at": "now"}),
        ("jobs_held_by_worker", {"worker": 1}),
        ("jobs_held_by_worker", {"state": "running", "worker": None}),
        ("jobs_one_key", {"key": "a", "live_key": "a"}),
        ("jobs_key_expiry", {"key_expires_at": "now"}),
        ("jobs_due_date", {"available_at": "infinity"}),
        ("jobs_due_date", {"available_at": LONG_AGO - timedelta(days=1)}),
        ("jobs_queue", {"queue": "No Spaces"}),
        ("jobs_kind", {"kind": ""}),
    ],
)
def test_what_is_refused_is_refused_by_the_name_of_the_rule(
    connection: psycopg.Connection, rule: str, columns: dict[str, Any]
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        a_job(connection, **columns)

    assert refused.value.diag.constraint_name == rule


def test_a_change_is_held_to_the_rules_as_a_new_row_is(connection: psycopg.Connection) -> None:
    a_job(connection)

    with pytest.raises(psycopg.errors.CheckViolation, match="jobs_held_by_worker"):
        connection.execute("UPDATE relevo.jobs SET state = 'running'")


def test_the_engine_leaves_one_check_to_be_read_by_each_statement(
    connection: psycopg.Connection,
) -> None:
    """Red when a rule is added as a CHECK of the table: each statement would read it again."""
    found = connection.execute(
        "SELECT conname, convalidated FROM pg_constraint"
        " WHERE conrelid = 'relevo.jobs'::regclass AND contype = 'c' ORDER BY conname"
    ).fetchall()

    # The other belongs to the application of this repository.
    assert found == [("jobs_cycle_dispatched", True), ("jobs_sound", True)]
