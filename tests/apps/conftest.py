"""Who works on evaluation cycles in these tests: the owner, and the role of the web."""

import os
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pooler
from real_data import real_file

ROLES = [None, "relevo_web"]


@pytest.fixture(scope="session")
def quiet_database(server: str, template: str) -> Iterator[str]:
    """The DSN of one database in which no test commits."""
    name = f"relevo_quiet_{os.getpid()}"
    clone = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
        yield make_conninfo(server, dbname=name)
        admin.execute(drop)


@pytest.fixture(params=ROLES, ids=["owner", "web"])
def worker(request: pytest.FixtureRequest, quiet_database: str) -> Iterator[psycopg.Connection]:
    """A connection of somebody who prepares cycles, once for each role; it never commits."""
    with pooler.connect(quiet_database, request.param) as opened:
        opened.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        yield opened
        opened.rollback()


@pytest.fixture(params=ROLES, ids=["owner", "web"])
def committer(request: pytest.FixtureRequest, database: str) -> Iterator[psycopg.Connection]:
    """The same with a database of its own, where commits are real."""
    with pooler.connect(database, request.param) as opened:
        opened.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        yield opened
        opened.rollback()


@pytest.fixture(scope="session")
def hr_employees() -> bytes:
    """The real organisation of 107 people."""
    return real_file("hr_employees.csv").read_bytes()
