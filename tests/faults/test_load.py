"""The campaigns' enqueuer says what became of a unit, whenever the server goes away."""

from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from factories import a_tenant, value
from faults.campaigns.load import Load
from relevo import JobKind
from workers import wait_until


class Lowest(Random):
    """Every chance comes true, and the first of several is chosen."""

    def random(self) -> float:
        return 0.0


def test_a_server_that_is_gone_at_the_roll_back_has_rolled_back(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue_many = JobKind.enqueue_many

    def then_end_it(kind: Any, connection: psycopg.Connection, *given: Any, **options: Any) -> Any:
        answer = enqueue_many(kind, connection, *given, **options)
        pid = connection.info.backend_pid
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])
            there = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"  # noqa: S608 -- a number
            wait_until(lambda: value(other, there) == 0)
        return answer

    with psycopg.connect(database, autocommit=True) as owner:
        load = Load(database, tmp_path, [a_tenant(owner)], Lowest())
        with monkeypatch.context() as patched:
            patched.setattr(JobKind, "enqueue_many", then_end_it)
            assert load.enqueue(1) == 0

        assert load.unknown == 0
        assert '"rolled_back"' in (tmp_path / "enqueuer.witness").read_text()
        assert value(owner, "SELECT count(*) FROM relevo.jobs") == 0
        assert load.enqueue(1, "mixed.inside") == 1
        load.close()
