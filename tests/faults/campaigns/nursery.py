"""Worker processes of a campaign, to be killed, frozen and replaced."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Born:
    """A worker process; its pid stays its own until the nursery has seen its end."""

    pid: int
    name: str
    witness: Path

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one that has ended no longer feels it."""
        os.kill(self.pid, number)

    @property
    def is_alive(self) -> bool:
        """Whether it runs or is frozen; one that has ended waits for the nursery."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return _state(self.pid) not in "ZX"
        return False


class Nursery:
    """Bears workers, names them and their witnesses, and sees their end.

    Args:
        dsn: The owner's address of the database that they serve.
        directory: Where witnesses and logs are kept.
        lease: Of each of them, in seconds.
        concurrency: How many jobs each of them may run at once.
        prefix: What their names begin with.
        variables: More of their environment.
    """

    def __init__(
        self,
        dsn: str,
        directory: Path,
        *,
        lease: float = 1.0,
        concurrency: int = 8,
        prefix: str = "w",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._dsn, self._directory, self._prefix = dsn, directory, prefix
        self._rules = {"lease": lease, "concurrency": concurrency}
        self._numbers = count(1)
        self.alive: list[Born] = []
        self.witnesses: list[Path] = []
        self._cradle = subprocess.Popen(
            [sys.executable, "-m", "faults.campaigns.cradle"],
            env={**os.environ, "PYTHONPATH": str(TESTS), **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def bear(self, number: int = 1) -> list[Born]:
        """Start so many workers."""
        return [self._bear() for _ in range(number)]

    def _bear(self) -> Born:
        name = f"{self._prefix}{next(self._numbers)}"
        witness = self._directory / f"{name}.witness"
        log = str(self._directory / "workers.log")
        order = {"do": "bear", "dsn": self._dsn, "name": name, "witness": str(witness), "log": log}
        born = Born(self._ask({**order, **self._rules}), name, witness)
        self.alive.append(born)
        self.witnesses.append(witness)
        return born

    def kill(self, born: Born) -> None:
        """End it as the kernel would, and see it gone."""
        born.send(signal.SIGKILL)
        self.bury(born)

    def bury(self, born: Born) -> int:
        """Wait for the end of a worker; answer its exit code."""
        self.alive.remove(born)
        return self._ask({"do": "bury", "pid": born.pid})

    def dead(self) -> list[str]:
        """Say which workers have ended although nobody asked them to."""
        ended = [born for born in self.alive if not born.is_alive]
        return [f"worker {born.name} ended with {self.bury(born)}" for born in ended]

    def stop(self) -> list[str]:
        """Ask all of them to stop; say who did not do so well."""
        said = self.dead()
        for born in self.alive:
            born.send(signal.SIGTERM)
        codes = {born.name: self.bury(born) for born in list(self.alive)}
        return [
            *said,
            *(f"worker {name} stopped with {code}" for name, code in codes.items() if code),
        ]

    def close(self) -> None:
        """End everything that lives."""
        for born in list(self.alive):
            with suppress(ProcessLookupError):
                born.send(signal.SIGKILL)
        assert self._cradle.stdin is not None
        self._cradle.stdin.close()
        self._cradle.wait(20)
        assert self._cradle.stdout is not None
        self._cradle.stdout.close()

    def _ask(self, order: dict[str, Any]) -> int:
        assert self._cradle.stdin is not None
        assert self._cradle.stdout is not None
        self._cradle.stdin.write(f"{json.dumps(order)}\n")
        self._cradle.stdin.flush()
        return int(self._cradle.stdout.readline())


@contextmanager
def a_nursery(dsn: str, directory: Path, **rules: Any) -> Iterator[Nursery]:
    """Lend a nursery; nothing of it lives on."""
    nursery = Nursery(dsn, directory, **rules)
    try:
        yield nursery
    finally:
        nursery.close()


def _state(pid: int) -> str:
    """The letter by which the kernel tells how a process is."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
