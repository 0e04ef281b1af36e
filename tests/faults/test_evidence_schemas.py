"""The evidence fits the schema of an earlier version, and stays whole through a migration."""

import psycopg
import pytest

from factories import a_job
from faults.checker import check
from faults.evidence import install, read_history
from relevo.db.migrate import ENGINE, Line, lines, migrate
from workers import query

LAST_OF_THE_FIRST_VERSION = 3


@pytest.fixture
def first_version(empty_database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database as the first version of the engine made it."""
    load = lines._load

    def load_some(line: Line) -> list[lines.Migration]:
        return [one for one in load(line) if one.version <= LAST_OF_THE_FIRST_VERSION]

    with monkeypatch.context() as patch:
        patch.setattr(lines, "_load", load_some)
        migrate(empty_database, [ENGINE])
    return empty_database


def test_a_migration_under_evidence_breaks_no_chain(first_version: str) -> None:
    install(first_version)
    with psycopg.connect(first_version, autocommit=True) as connection:
        a_job(connection)
        a_job(connection, queue="q")
    query(first_version, "UPDATE relevo.jobs SET priority = 1 WHERE id = 1")
    before = read_history(first_version)

    migrate(first_version, [ENGINE])
    query(first_version, "UPDATE relevo.jobs SET priority = 0 WHERE id = 1")
    install(first_version)
    query(first_version, "UPDATE relevo.jobs SET lane_key = 'l', priority = 1 WHERE id = 1")
    query(first_version, "INSERT INTO relevo.limits VALUES (DEFAULT, 'queue', 'q', 'running', 0)")

    history = read_history(first_version)

    assert [event.op for event in before.events] == ["insert", "insert", "update"]
    assert [event.version for event in history.events] == [1, 1, 2, 3, 4]
    assert history.events[-1].lane_key == "l"
    assert len(history.limits) == 1
    assert check(before) == check(history) == []
