"""What most tests of whole workers start from."""

from collections.abc import Iterator

import psycopg
import pytest

from relevo import Relevo


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """The owner's connection, each statement committed by itself."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def app() -> Relevo:
    return Relevo()
