"""The project's benchmarks still run: everything is measured, whatever the figures are."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import workers

ROOT = Path(__file__).parents[2]
RUN = ROOT / "benchmarks" / "run.py"
PATIENCE = 120

TINY = (
    *("--rounds", "1", "--jobs", "200", "--chunk", "100", "--single", "5"),
    *("--spaced", "3", "--rest", "0.2", "--idle", "0.2", "--people", "0"),
)
MEASURES = ["install", "single", "bulk", "drain", "latency", "idle"]


def benchmarks(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PEERS"}
    return subprocess.run(
        [sys.executable, RUN, *words],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_both_sides_are_measured_and_shown(server: str, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"

    ended = benchmarks(*TINY, "--dsn", server, "--out", str(results))

    assert ended.returncode == 0, ended.stderr
    lines = read(results)
    for name in ("raw", "relevo"):
        found = {line["measure"]: line for line in lines if line.get("contender") == name}
        assert list(found) == MEASURES
        assert [line for line in found.values() if "error" in line] == []
        assert (found["drain"]["jobs"], found["drain"]["runs"]) == (205, 205)
        assert found["bulk"]["wal"] > 0
    databases = "SELECT count(*) FROM pg_database WHERE datname LIKE 'relevo_bench%%'"
    assert workers.query(server, databases.replace("%%", "%")) == [(0,)]
    again = benchmarks("show", str(results))
    assert again.returncode == 0, again.stderr
    assert again.stdout in ended.stdout
    rows = [line.split("|") for line in again.stdout.splitlines() if line.startswith("|")]
    assert [row[1].strip() for row in rows].count("relevo") == 4


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason(
    server: str, tmp_path: Path
) -> None:
    results = tmp_path / "results.jsonl"
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}

    ended = benchmarks(
        *("--rounds", "0", "--people", "0", "--only", "procrastinate", "--dsn", server),
        *("--cache", str(tmp_path / "cache"), "--out", str(results)),
        **nothing,
    )

    assert ended.returncode == 0, ended.stderr
    (line,) = read(results)
    assert line["contender"] == "procrastinate"
    assert "procrastinate" in line["skipped"]
    assert "skipped procrastinate: ERROR" in ended.stdout


def test_a_peer_that_fails_is_named_and_the_others_go_on(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that finds no package of its own stands for one that breaks."""
    monkeypatch.syspath_prepend(str(RUN.parent))
    peers = importlib.import_module("harness.contenders").PEERS
    (oban,) = (each for each in peers if each.name == "oban")
    results, cache = tmp_path / "results.jsonl", tmp_path / "cache"
    environment = cache / "venvs" / "oban"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python").symlink_to(sys.executable)
    (environment / "requirements.txt").write_text("\n".join(oban.requirements), encoding="utf-8")

    ended = benchmarks(
        *(*TINY, "--spaced", "0", "--idle", "0", "--only", "oban", "--dsn", server),
        *("--cache", str(cache), "--out", str(results)),
    )

    assert ended.returncode == 0, ended.stderr
    failed = [line for line in read(results) if "error" in line]
    assert [(line["contender"], line["measure"]) for line in failed] == [("oban", "install")]
    assert "No module named 'oban'" in ended.stdout
    assert [line for line in read(results) if line.get("measure") == "drain"] != []
