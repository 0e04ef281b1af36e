"""The soak, scaled to half a minute: its counts add up and its dead rows stay few."""

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from factories import a_job

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("soak")


@pytest.mark.timeout(400)
def test_half_a_minute_of_mixed_flow_loses_nothing_and_leaves_few_dead_rows() -> None:
    """Red when a job is lost, done twice or out of order, or when vacuum cannot keep up."""
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--minutes", "0.5", "--counts-only"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    verdicts = [line for line in ended.stdout.splitlines() if line.startswith(("ok", "FAIL"))]
    assert [line for line in verdicts if line.startswith("FAIL")] == [], ended.stderr
    assert ended.returncode == 0, ended.stderr
    assert len(verdicts) == 1 + 10 + 3 + 1


def test_a_job_that_was_lost_is_noticed(
    soak: ModuleType, connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    connection.execute("CREATE TABLE public.effects (job_id bigint NOT NULL)")
    created = Counter({"soak.quick": 2})
    a_job(connection, kind="soak.quick", state="completed")
    a_job(connection, kind="soak.quick", state="failed")
    a_job(connection, kind="soak.probe", state="completed")
    verdicts = soak.Verdicts()

    verdicts.counts(connection, created, 1)

    said = capsys.readouterr().out
    assert verdicts.failed == 1
    assert "FAIL soak.quick: 2 created, 1 completed" in said


def test_ordered_jobs_that_ran_side_by_side_are_noticed(
    soak: ModuleType, connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    connection.execute("CREATE TABLE public.effects (job_id bigint NOT NULL)")
    for started, finished in (("12:00", "12:02"), ("12:01", "12:03"), ("12:03", "12:04")):
        a_job(
            connection,
            kind="soak.ordered",
            state="completed",
            started_at=f"2001-01-01 {started}",
            finished_at=f"2001-01-01 {finished}",
        )

    soak.Verdicts().counts(connection, Counter({"soak.ordered": 3}), 0)

    assert "FAIL 1 ordered jobs started" in capsys.readouterr().out


def test_a_slope_is_found_in_noise_and_a_percentile_in_any_order(soak: ModuleType) -> None:
    watch = importlib.import_module("soak_watch")
    climbing = [(x, 40 + 0.5 * x + (-1) ** x) for x in range(100)]

    assert abs(watch.slope(climbing) - 0.5) < 0.01
    assert watch.slope([(x, 40.0) for x in range(10)]) == 0
    assert watch.percentile([*range(100, 0, -1)], 0.95) == 96
