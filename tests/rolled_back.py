"""One database for all the tests of a room that commit nothing: each is rolled back.

A room's conftest imports both fixtures; who commits asks for `database` instead.
"""

import os
from collections.abc import Iterator
from itertools import count

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import pooler

__all__ = ["connection", "shared_database"]

_numbers = count(1)


@pytest.fixture(scope="package")
def shared_database(server: str, template: str) -> Iterator[str]:
    """The DSN of a migrated database that stays as it was migrated."""
    name = sql.Identifier(f"relevo_shared_{os.getpid()}_{next(_numbers)}")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template))
        )
        yield make_conninfo(server, dbname=name.as_string(admin).strip('"'))
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@pytest.fixture
def connection(shared_database: str) -> Iterator[psycopg.Connection]:
    """An open connection of the owner, in a transaction that is rolled back."""
    with pooler.connect(shared_database) as opened:
        yield opened
        opened.rollback()
