"""The statements of delivery and of lists are ones that the server understands."""

import psycopg
import pytest

from relevo_apps.evaluations.store import delivery, listing

STATEMENTS = [*delivery.SQL.values(), *listing.SQL.values()]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.name)
def test_a_statement_is_prepared_by_the_server(connection: psycopg.Connection, statement):
    connection.execute(f"PREPARE tried AS {statement.numbered}".encode())

    row = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name = 'tried'")
    assert row.fetchone() == (1,)
