"""The address of the embedded server, as its clients read it."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
from embedded_support import FAST, a_place
from psycopg import sql

from relevo.db.embedded import Embedded, binaries
from relevo.db.embedded.dsn import build_dsn
from relevo.db.embedded.errors import NotStarted
from relevo.db.embedded.postmaster import Address

DATABASE = "año/50% of?them&#=all '\"+"
ROLE = 'A role\\with "signs" %&='


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with a_place() as place, Embedded(place / "it's 100% & more", FAST) as started:
        with psycopg.connect(started.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
            connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(ROLE)))
        yield started


def test_psycopg_reads_every_part_of_the_address(server: Embedded) -> None:
    dsn = server.dsn(DATABASE, role=ROLE, options={"application_name": "two  words \\ one"})

    with psycopg.connect(dsn) as connection:
        question = "SELECT current_database(), current_user, current_setting('application_name')"
        answer = connection.execute(question).fetchone()

    assert answer == (DATABASE, ROLE, "two  words \\ one")


async def test_asyncpg_reads_every_part_of_the_address(server: Embedded) -> None:
    dsn = server.dsn(DATABASE, role=ROLE, options={"application_name": "two  words \\ one"})

    connection = await asyncpg.connect(dsn)
    question = "SELECT current_database(), current_user, current_setting('application_name')"
    answer = await connection.fetchrow(question)
    await connection.close()

    assert tuple(answer) == (DATABASE, ROLE, "two  words \\ one")


def test_pg_dump_reads_the_address(server: Embedded) -> None:
    with psycopg.connect(server.dsn(DATABASE), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (answer int)")
    pg_dump = binaries.locate() / "pg_dump"

    dumped = subprocess.run(
        [pg_dump, "--dbname", server.dsn(DATABASE)], capture_output=True, text=True, check=False
    )

    assert dumped.stderr == ""
    assert "CREATE TABLE public.kept" in dumped.stdout


def test_the_address_holds_nothing_that_a_shell_or_a_uri_would_cut() -> None:
    address = Address(Path("/a b/ñ&=?#%"), port=5432, pid=1, started=1)

    dsn = build_dsn(address, "a/b c", role="r 1", options={"x.y": "1 2"})

    assert dsn == (
        "postgresql://postgres@/a%2Fb%20c?host=%2Fa%20b%2F%C3%B1%26%3D%3F%23%25&port=5432"
        "&options=-c%20role%3Dr%5C%201%20-c%20x.y%3D1%5C%202"
    )
    assert urlsplit(dsn).path == "/a%2Fb%20c"


def test_a_role_is_not_asked_for_unless_it_is_named(server: Embedded) -> None:
    assert "options" not in server.dsn()


def test_there_is_no_address_before_the_start_and_after_the_stop(tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match=r"call start\(\) first"):
        Embedded(tmp_path / "pg").dsn()
    assert not (tmp_path / "pg").exists()

    with a_place() as place:
        with Embedded(place / "pg", FAST) as server:
            pass
        with pytest.raises(NotStarted):
            server.dsn()
