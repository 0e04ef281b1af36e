"""Tables in which many rows die are vacuumed by their number, however large they have grown."""

import psycopg
import pytest

pytestmark = pytest.mark.core

# A fifth of a big table is what PostgreSQL would wait for.
AFTER = {
    "attempts": 20_000,
    "jobs": 20_000,
    "permits": 5_000,
    "workers": 1_000,
}


def test_each_of_them_names_a_number_of_dead_rows_and_no_share(connection: psycopg.Connection):
    found = connection.execute(
        "SELECT relname, reloptions FROM pg_class"
        " WHERE relnamespace = 'relevo'::regnamespace AND relkind = 'r' AND reloptions IS NOT NULL"
    ).fetchall()
    options = {name: dict(each.split("=") for each in said) for name, said in found}

    assert {
        name: int(said["autovacuum_vacuum_threshold"])
        for name, said in options.items()
        if said.get("autovacuum_vacuum_scale_factor") == "0"
    } == AFTER


def test_a_month_of_the_archive_has_nothing_to_be_told(connection: psycopg.Connection):
    """Its rows are added and never change, which PostgreSQL's own settings are made for."""
    connection.execute("SELECT relevo.make_archive_month('2020-05-05')")

    found = connection.execute(
        "SELECT reloptions FROM pg_class WHERE oid = 'relevo.archive_2020_05'::regclass"
    ).fetchone()

    assert found == (None,)
