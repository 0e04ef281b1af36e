"""Logins of applications and owners, beside the superuser that the suite runs as."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

_numbers = count(1)


@dataclass(frozen=True)
class Login:
    """A role that can log in and may do nothing yet."""

    name: str

    def on(self, dsn: str, **settings: str) -> str:
        return make_conninfo(dsn, user=self.name, password=self.name, **settings)


@pytest.fixture(scope="session")
def logins(server: str) -> Iterator[list[Login]]:
    """Every login that a test made; dropped when the databases of the tests are gone."""
    made: list[Login] = []
    yield made
    with psycopg.connect(server, autocommit=True) as connection:
        for login in made:
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(login.name)))


@pytest.fixture
def a_login(server: str, logins: list[Login]) -> Login:
    """A new role that can log in; only what everybody may do is granted."""
    login = Login(f"relevo_login_{os.getpid()}_{next(_numbers)}")
    create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(login.name), sql.Literal(login.name)))
    logins.append(login)
    return login


@pytest.fixture
def another_database(server: str) -> Iterator[str]:
    """The DSN of a second new database, to compare the first with."""
    name = sql.Identifier(f"relevo_other_{os.getpid()}_{next(_numbers)}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield make_conninfo(server, dbname=name.as_string(connection).strip('"'))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
