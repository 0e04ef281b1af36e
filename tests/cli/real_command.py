"""The real command in a child process."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

COMMAND = Path(sys.executable).parent / "relevo"
TESTS = Path(__file__).parent.parent
ENVIRONMENT = "tests-of-the-command"
PATIENCE = 60


@dataclass
class Command:
    """Runs `relevo` as a user would, with nothing of the tests' own environment."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        ours = ("RELEVO_", "LC_", "LANG", "DATABASE_URL", "PG", "NO_COLOR", "FORCE_COLOR")
        # How wide a terminal is said to be would be believed before the terminal.
        ours += ("COLUMNS", "LINES")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        return {
            **kept,
            "RELEVO_HOME": str(self.home),
            "RELEVO_ENVIRONMENT": ENVIRONMENT,
            "PYTHONPATH": os.pathsep.join(map(str, (TESTS, TESTS / "cli"))),
            **self.variables,
        }

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on; killed at the end if it has not ended by itself."""
        process = subprocess.Popen(
            [COMMAND, *words],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=PATIENCE)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Wait until the process says it on stderr; answers everything that it said."""
    assert process.stderr is not None
    said: list[str] = []
    for line in process.stderr:
        said.append(line)
        if text in line:
            return "".join(said)
    raise AssertionError("".join(said))
