"""A demonstration that is killed leaves no worker that goes on alone."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relevo_apps.evaluations.demo import leftover
from workers import wait_until

COMMAND = Path(sys.executable).parent / "relevo"


@pytest.fixture
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="relevo-test-killed-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_killed_demo_takes_its_worker_along_and_is_removed_whole(temporary: Path):
    ours = ("RELEVO_", "LC_", "LANG", "DATABASE_URL", "PG")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) or name == "RELEVO_PG_BIN"
    }
    environment = {**kept, "TMPDIR": str(temporary)}
    process = subprocess.Popen(
        [COMMAND, "demo", "--size", "300", "--backoff", "1"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: list(temporary.glob("relevo-demo-*/worker.pid")) != [], 60)
        file = next(temporary.glob("relevo-demo-*/worker.pid"))
        wait_until(lambda: file.read_text(encoding="ascii").endswith("\n"))
        pid = int(file.read_text(encoding="ascii").split()[0])
        wait_until(lambda: "serves" in (file.parent / "worker.log").read_text(encoding="utf-8"), 60)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    wait_until(lambda: leftover._birth(pid) == "", 60)
    removed = subprocess.run(
        [COMMAND, "demo", "--remove", file.parent], env=environment, check=False, timeout=60
    )

    assert removed.returncode == 0
    assert list(temporary.iterdir()) == []


def test_only_the_process_that_was_recorded_is_ended(tmp_path: Path):
    file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        leftover.record(process.pid, file)
        genuine = file.read_text(encoding="ascii")
        file.write_text(f"{process.pid} 1\n", encoding="ascii")

        leftover.end(file)
        spared = process.poll() is None
        file.write_text(genuine, encoding="ascii")
        leftover.end(file)

        assert spared
        assert process.wait(60) == -signal.SIGTERM
