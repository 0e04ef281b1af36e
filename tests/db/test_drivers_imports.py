"""What is loaded, and which objects count as connections."""

import subprocess
import sys
from typing import Any

import asyncpg
import psycopg
import pytest
from django.db import connections
from driver_kinds import configure_django
from sqlalchemy import create_engine

from relevo.db.drivers import OperationSpent, UnknownConnection, is_async, run
from relevo.db.operation import Call, Operation
from relevo.db.statements import Statement

ONE = Call(Statement("select_one", "SELECT 1"))

LOOK = """
import sys
import relevo
import relevo.db.drivers as drivers
try:
    drivers.is_async(object())
except drivers.UnknownConnection:
    pass
print(*sorted({"asyncpg", "sqlalchemy", "django", "psycopg2"} & set(sys.modules)))
"""


def select_one() -> Operation[Any]:
    rows = yield ONE
    return rows[0][0]


def test_importing_relevo_imports_no_library_of_the_caller() -> None:
    looked = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True
    )

    assert looked.stdout.split() == []


@pytest.mark.parametrize("given", [None, 3, "postgresql://", psycopg, asyncpg.Connection])
def test_what_is_not_a_connection_is_refused_with_the_kinds_that_are(given: object) -> None:
    with pytest.raises(UnknownConnection, match=r"give one of psycopg\.Connection"):
        is_async(given)


def test_an_engine_is_not_a_connection() -> None:
    engine = create_engine("sqlite://")

    with pytest.raises(UnknownConnection, match=r"sqlalchemy\.engine\.base\.Engine is not"):
        run(engine, select_one())

    engine.dispose()


def test_sqlalchemy_on_another_database_is_refused() -> None:
    engine = create_engine("sqlite://")

    with (
        engine.connect() as connection,
        pytest.raises(UnknownConnection, match="SQLAlchemy's pysqlite connection"),
    ):
        run(connection, select_one())

    engine.dispose()


def test_django_on_another_database_is_refused() -> None:
    configure_django()

    with pytest.raises(UnknownConnection, match="Django's sqlite connection"):
        run(connections["sqlite"], select_one())


def test_a_subclass_of_a_known_connection_is_known(empty_database: str) -> None:
    class Mine(psycopg.Connection[Any]):
        pass

    with Mine.connect(empty_database) as connection:
        assert not is_async(connection)
        assert run(connection, select_one()) == 1


def test_an_operation_that_ran_is_refused_instead_of_doing_nothing(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        operation = select_one()
        run(connection, operation)

        with pytest.raises(OperationSpent, match="select_one already ran"):
            run(connection, operation)
