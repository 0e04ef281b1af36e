"""The tutorial's commands run in order, and what the page shows is what they say."""

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-cycle.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "-- end of block"
PATIENCE = 120
PREAMBLE = "set -e; exec 2>&1; trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder to work in that the embedded server's account can enter."""
    with tempfile.TemporaryDirectory(prefix="relevo-tutorial-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def words(line: str) -> str:
    return " ".join(line.split())


def test_every_command_of_the_first_cycle_runs_and_says_what_the_page_shows(folder: Path):
    text = PAGE.read_text(encoding="utf-8").replace("8025", str(free_port()))
    blocks = BLOCK.findall(text)
    commands = [body for kind, body in blocks if kind == "sh"]
    script = f"\necho '{MARK}'\n".join([PREAMBLE, *commands])
    ours = ("RELEVO_", "LC_", "LANG", "DATABASE_URL", "PG")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) or name == "RELEVO_PG_BIN"
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    ended = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**kept, "PATH": path, "RELEVO_HOME": str(folder / "home")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout
    said = [{words(line) for line in part.splitlines()} for part in ended.stdout.split(MARK)[1:]]
    place = -1
    for kind, body in blocks:
        if kind == "sh":
            place += 1
            continue
        missing = [line for line in body.splitlines() if words(line) not in said[place]]
        assert missing == [], ended.stdout.split(MARK)[place + 1]
    mails = (folder / "first-cycle" / "mails.txt").read_text(encoding="utf-8")
    assert mails.count("MESSAGE FOLLOWS") == 5
