"""Measuring in one process: what holds the jobs of a measurement is said, not waited for."""

import psycopg
import pytest

from relevo.bench import trial
from relevo.bench.errors import BenchStalled
from relevo.bench.own import KIND, OwnQueue
from relevo.bench.raw import RawQueue
from relevo.bench.scratch import scratch
from relevo.bench.trial import Sizes, measure_rounds

TINY = Sizes(jobs=30, single=3, spaced=3, rounds=2)


def nothing(_done: int = 0) -> None:
    """Take no note."""


async def test_both_sides_are_measured_in_every_round(database: str) -> None:
    done: list[int] = []

    with scratch(database, nothing):
        found = await measure_rounds(RawQueue(database), OwnQueue(database), TINY, done.append)

    assert {side: list(rounds) for side, rounds in found.items()} == {
        "raw": [0, 1],
        "relevo": [0, 1],
    }
    assert done == [1, 2, 3, 4]


async def test_jobs_that_a_pause_holds_end_the_measurement(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "STALL", 1.0)
    with psycopg.connect(database) as owner:
        owner.execute(
            "INSERT INTO relevo.pauses (scope, name, reason) VALUES ('kind', %s, 'a reason')",
            [KIND],
        )

    with pytest.raises(BenchStalled, match="relevo-bench"), scratch(database, nothing):
        await measure_rounds(RawQueue(database), OwnQueue(database), TINY, nothing)

    with psycopg.connect(database) as owner:
        assert owner.execute("SELECT count(*) FROM relevo.jobs").fetchone() == (0,)


async def test_a_worker_that_fails_ends_the_measurement(database: str) -> None:
    class Failing(RawQueue):
        async def work(self, *_: object) -> None:
            raise RuntimeError("no worker today")

    with pytest.raises(RuntimeError, match="no worker today"), scratch(database, nothing):
        await measure_rounds(Failing(database), OwnQueue(database), TINY, nothing)
