"""Who works on evaluation cycles in these tests: the owner, and the role of the web."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cycle_factory import as_role


@pytest.fixture(params=["owner", "relevo_web"])
def worker(request: pytest.FixtureRequest, database: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody who prepares cycles, once for each role that may."""
    role = None if request.param == "owner" else request.param
    with as_role(database, role) as opened:
        yield opened
        opened.rollback()


@pytest.fixture(scope="session")
def hr_employees() -> bytes:
    """The real organisation of 107 people."""
    folder = Path(os.environ.get("RELEVO_TEST_DATA", "../shared/data"))
    file = folder / "hr_employees.csv"
    if not file.exists():
        missing = f"no {file}: set RELEVO_TEST_DATA to the folder with the test data"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return file.read_bytes()
