"""The version before: its sources from the repository's history, its processes beside ours."""

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parent.parent.parent
SOURCES = TESTS.parent / "src"

BEFORE = "25204e0"
"""The last commit that had but the first migration."""


class NoHistory(Exception):
    """The commit is not here: a shallow clone, or sources without a repository."""


def sources_before(directory: Path) -> Path:
    """Lay out the sources of the version before; answer their place.

    Raises:
        NoHistory: The repository does not go back so far.
    """
    found = subprocess.run(
        ["git", "-C", str(TESTS.parent), "archive", BEFORE, "src"],
        capture_output=True,
        check=False,
    )
    if found.returncode:
        msg = f"commit {BEFORE} is not here: {found.stderr.decode().strip()}"
        raise NoHistory(msg)
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "src"


@dataclass
class Crew:
    """Processes of either version.

    Attributes:
        directory: Where their witnesses and their log are kept.
        dsn: What they are told.
        witnesses: Of all of them.
    """

    directory: Path
    dsn: str
    witnesses: list[Path] = field(default_factory=list)
    _alive: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def start(self, sources: Path, what: str, name: str) -> None:
        """Start a worker (`work`), or an enqueuer, quick (`enqueue`) or slow (`hold`)."""
        witness = self.directory / f"{name}.witness"
        self.witnesses.append(witness)
        with (self.directory / f"{name}.log").open("ab") as log:
            self._alive[name] = start(sources, what, self.dsn, name, str(witness), log=log)

    def stop(self, *names: str) -> list[str]:
        """Ask them to stop, and say who did not do so well."""
        codes: Mapping[str, int] = {}
        for name in names:
            self._alive[name].terminate()
        codes = {name: self._alive.pop(name).wait(60) for name in names}
        return [f"{name} ended with {code}" for name, code in codes.items() if code]

    def dead(self) -> list[str]:
        """Say who has ended although nobody asked for it."""
        return [
            f"{name} ended with {process.returncode}"
            for name, process in self._alive.items()
            if process.poll() is not None
        ]

    def close(self) -> None:
        """End whoever lives."""
        for process in self._alive.values():
            process.kill()
            process.wait()


def start(
    sources: Path, *words: str, log: "io.BufferedWriter | None" = None
) -> "subprocess.Popen[bytes]":
    """Start a process of one version."""
    path = os.pathsep.join([str(sources), str(TESTS)])
    return subprocess.Popen(
        [sys.executable, "-m", "faults.campaigns.either", *words],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=log,
    )


@contextmanager
def a_crew(directory: Path, dsn: str) -> Iterator[Crew]:
    """Lend a crew; nothing of it lives on."""
    crew = Crew(directory, dsn)
    try:
        yield crew
    finally:
        crew.close()
