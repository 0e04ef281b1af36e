"""Removing what was measured reads no more of a large table than was added since."""

import psycopg
import pytest
from plans import Prepared, scans

from factories import some_jobs, value
from relevo import DEFAULT_TENANT
from relevo.store.jobs.measured import STATEMENTS

pytestmark = pytest.mark.core

ROWS = 30_000


@pytest.fixture
def first(connection: psycopg.Connection) -> int:
    """An id after many jobs of others, and a few of the measurement behind it."""
    some_jobs(connection, ROWS)
    found = int(value(connection, "SELECT nextval('relevo.jobs_id_seq')"))
    some_jobs(connection, 50, queue="measured", kind="measured.noop")
    connection.execute("ANALYZE relevo.jobs")
    return found


def test_the_jobs_to_erase_are_found_by_their_ids(
    connection: psycopg.Connection, first: int
) -> None:
    params = {
        "tenant_id": DEFAULT_TENANT,
        "first": first,
        "queue": "measured",
        "kind": "measured.noop",
        "limit": 5000,
    }

    plan = Prepared(connection, STATEMENTS["erase_jobs"]).execute(params, explain=True)

    assert plan is not None
    assert scans(plan, "jobs") == [("Index Scan", "jobs_pkey")]


def test_what_is_left_is_counted_in_the_index_of_the_claim(
    connection: psycopg.Connection, first: int
) -> None:
    params = {"tenant_id": DEFAULT_TENANT, "queue": "measured"}

    plan = Prepared(connection, STATEMENTS["count_unfinished_jobs"]).execute(params, explain=True)

    assert plan is not None
    assert {index for _, index in scans(plan, "jobs")} == {"jobs_claim"}
